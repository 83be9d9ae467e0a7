--- require lazy "core/record"
--- used by core/statistics, overview, stats_history
-- Finds when the oldest available message of a queue came, for numbers that users and the statistics are shown. stats.lua looks for
-- the oldest one of each priority itself. Tests: tests/inspection/test_history.py, test_overview.py.
local oldest = {}

-- Returns when it came, in ms of broker time, nil if none is available; and how many commands it took to find out. An id begins
-- with two digits for the priority, and the ids of one priority ascend (enqueue.ids): so it is the first one of some priority.
function oldest.arrival(q)
  local from, time, cost = "-", nil, 0
  repeat
    local id = redis.call("ZRANGEBYLEX", q.available, from, "+", "LIMIT", 0, 1)[1]
    local rec = id and redis.call("HGET", q.records, id)
    if rec then time = math.min(time or math.huge, record.arrived(rec)) end
    if id then from = "[" .. string.format("%02x", tonumber(string.sub(id, 1, 2), 16) + 1) end
    cost = cost + 2
  until not id
  return time, cost
end
