--- used by core/statistics, overview, stats_history
-- The oldest available message of a queue.
local oldest = {}

-- When it came, in ms, or -1 if none is available, and how many commands it took to find out. The ids of one priority ascend,
-- so it is the first one of some priority.
function oldest.arrival(q)
  local from, time, cost = "-", -1, 0
  repeat
    local id = redis.call("ZRANGEBYLEX", q.available, from, "+", "LIMIT", 0, 1)[1]
    local rec = id and redis.call("HGET", q.records, id)
    local arrival = rec and tonumber(string.sub(rec, 1, 13))
    if arrival and (time < 0 or arrival < time) then time = arrival end
    if id then from = "[" .. string.format("%02x", tonumber(string.sub(id, 1, 2), 16) + 1) end
    cost = cost + 2
  until not id
  return time, cost
end
