--- require "core/context"
--- used by worker_beat, worker_order
-- The workers of a queue manager, and what operators have told them: the hash `workers`, whose key a script is given behind
-- those of the queues. Fields:
--
--   "w:<id>"        "<until ms> <JSON>": what a worker says of itself (mqredis/worker/heartbeat.py). A worker whose time is
--                   over counts as gone
--   "o:<id>"        orders for a worker that it has not seen yet, one a line: "stop", or "cancel <lookup id>"
--   "q:<queue>"     "<since ms> <JSON>": workers read nothing from this queue, or no consumer of this name reads anything;
--   "c:<consumer>"  the JSON says who wants that, and why; since: as users are shown it (context.shown), while
--                   `until` is broker time
local workers = {}

-- Is there a worker with this id?
function workers.is_alive(key, id)
  local until_ms = string.match(redis.call("HGET", key, "w:" .. id) or "", "^(%d+) ")
  return until_ms and until_ms + 0 > context.now
end

-- Removes up to 500 workers whose time is over, with their orders.
function workers.sweep(key)
  local fields, gone = redis.call("HGETALL", key), {}
  for n = 1, #fields, 2 do
    local until_ms = string.sub(fields[n], 1, 1) == "w" and string.match(fields[n + 1], "^(%d+) ")
    if until_ms and until_ms + 0 <= context.now then
      gone[#gone + 1], gone[#gone + 2] = fields[n], "o" .. string.sub(fields[n], 2)
    end
  end
  if gone[1] then redis.call("HDEL", key, unpack(gone, 1, math.min(#gone, 1000))) end
end
