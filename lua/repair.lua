-- Carry out what the doctor decided, if the manager is still as it was when the doctor looked.
-- MS-MQDMPR 3.1.1 Abstract Data Model
--
-- CALLERS repair in mqredis/commands/doctor.py
-- KEYS admin
-- QUEUE[1+] queues to mend
-- KEYS schedules, schedules:messages (admin/schedules), workers (admin/workers)
-- ARGV[3] history  number that the doctor saw
-- ARGV[4+] edit  four each: what (hset, hdel, zadd, zrem, unlink, persist, count), place of the key in KEYS, element, value; "" for
--   what it does not take
-- RETURNS OK history after the edits
-- RETURNS CONTINUE nothing was done: the store has changed meanwhile
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
-- Change together with: mqredis/operations/doctor/checks, which make the edits (tests/contract/test_arguments.py). The element of a
-- `count` is "messages" or "bytes" of the manager (core/context), or a field in the header of a queue (core/queue).
-- Tests: tests/doctor/test_planted_faults.py.
local reply = context.open()
if reply then return reply end
if string.format("%.0f", context.history) ~= ARGV[3] then
  return context.close(context.reply(status.CONTINUE, context.history))
end

-- Returns the queue to which the key at this place of KEYS belongs.
local function opened(place)
  return queue.open(math.floor(queue.number(place, queue.admin_keys)), queue.admin_keys)
end

-- Sets one of the numbers in a queue's header; has_states and waiting are set by "1", and never cleared. Where the header cannot be
-- read all its numbers begin anew: other edits set what the doctor has counted, and the next call looks at timers, waiting readers
-- and states.
local function set_header(q, element, value)
  if not q then return end
  if not q.messages then
    q.messages, q.bytes, q.gone, q.due, q.waiting, q.has_special, q.has_states = 0, 0, 0, 0, true, true, true
    redis.call("HDEL", q.key, "statistics") -- they count on from counters that are lost
  end
  q[element] = tonumber(value)
  queue.write(q)
end

context.mark_changed()
for n = 4, #ARGV, 4 do
  local what, place, element, value = ARGV[n], tonumber(ARGV[n + 1]), ARGV[n + 2], ARGV[n + 3]
  local key = KEYS[place]
  if what == "hset" then
    redis.call("HSET", key, element, value)
    if string.sub(key, -2) == ":s" then set_header(opened(place), "has_states", "1") end -- its states (core/queue)
  elseif what == "hdel" then
    redis.call("HDEL", key, element)
  elseif what == "zadd" then
    redis.call("ZADD", key, value, element)
  elseif what == "zrem" then
    redis.call("ZREM", key, element)
  elseif what == "unlink" then
    redis.call("UNLINK", key)
  elseif what == "persist" then
    redis.call("PERSIST", key)
  elseif key == KEYS[1] then -- count: a counter of the manager, which context.close writes
    context[element] = value
  else
    set_header(opened(place), element, value)
  end
  -- The config of a queue is made again from its fields, if it was made from what is wrong. No edit changes a field of which the
  -- config of the manager is made.
  if (what == "hset" or what == "hdel") and string.sub(key, -2) == ":q" then
    local q = opened(place)
    if q then queue.save_config(q) end
  end
end
return context.close(context.reply(status.OK, context.history))
