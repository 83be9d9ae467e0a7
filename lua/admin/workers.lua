--- require "core/context"
--- used by worker_beat, worker_list, worker_order
-- The workers of a queue manager, and what operators have told them: the hash `workers`, whose key a script is given behind
-- those of the queues. Fields:
--
--   "w:<id>"        "<until ms> <JSON>": what a worker says of itself (mqredis/worker/heartbeat.py). A worker whose time is
--                   over counts as gone
--   "o:<id>"        orders for a worker that it has not seen yet, one a line: "stop", or "cancel <lookup id>"
--   "q:<queue>"     "<since ms> <JSON>": workers read nothing from this queue, or no consumer of this name reads anything;
--   "c:<consumer>"  the JSON says who wants that, and why; since: as users are shown it (context.shown), while
--                   `until` is broker time
--
-- This module formats and parses these texts for the scripts worker_beat, worker_list and worker_order.
-- Change together with: mqredis/commands/workers.py, which parses the texts of workers and pauses, also for the doctor
-- (mqredis/operations/doctor/checks/workers.py, which tells the fields by their letters); mqredis/operations/workers.py,
-- which makes orders and the fields of pauses; mqredis/worker/heartbeat.py, which carries out orders. Tests:
-- tests/operator/test_workers.py. Here `key` is the key of the hash, and `id` that of a worker.
--
-- pauses: the letters of pauses, as KINDS in mqredis/commands/workers.py has them
local workers = { pauses = { q = true, c = true } }

-- Does the worker with this text live? No for no text, and for one that cannot be read.
function workers.lives(text)
  return tonumber(string.match(text or "", "^(%d+) ") or 0) > context.now
end

-- Is there a worker with this id?
function workers.is_alive(key, id)
  return workers.lives(redis.call("HGET", key, "w:" .. id))
end

-- Writes what a worker says of itself, as JSON; it lives for `lease` ms from now.
function workers.save(key, id, lease, record)
  redis.call("HSET", key, "w:" .. id, string.format("%.0f ", context.now + lease) .. record)
end

-- Removes a worker, which has ended.
function workers.remove(key, id)
  redis.call("HDEL", key, "w:" .. id)
end

-- Removes up to 500 workers that do not live any more, with their orders.
function workers.sweep(key)
  local fields, gone = redis.call("HGETALL", key), {}
  for n = 1, #fields, 2 do
    if string.sub(fields[n], 1, 1) == "w" and not workers.lives(fields[n + 1]) then
      gone[#gone + 1], gone[#gone + 2] = fields[n], "o" .. string.sub(fields[n], 2)
    end
  end
  if gone[1] then redis.call("HDEL", key, unpack(gone, 1, math.min(#gone, 1000))) end -- each has two fields
end

-- Gives a worker an order.
function workers.add_order(key, id, order)
  local earlier = redis.call("HGET", key, "o:" .. id)
  redis.call("HSET", key, "o:" .. id, earlier and (earlier .. "\n" .. order) or order)
end

-- Returns the orders for a worker, one a line, which it has seen then; "" if there is none.
function workers.take_orders(key, id)
  local orders = redis.call("HGET", key, "o:" .. id) or ""
  if orders ~= "" then redis.call("HDEL", key, "o:" .. id) end
  return orders
end

-- Sets a pause from now on. `field`: "q:" or "c:" and a name; `told`: JSON.
function workers.pause(key, field, told)
  redis.call("HSET", key, field, string.format("%.0f ", context.shown(context.now)) .. told)
end
