-- Carry out what the doctor decided, if the manager is still as it was when the doctor looked.
-- MS-MQDMPR 3.1.1 Abstract Data Model
--
-- CALLERS repair in mqredis/commands/doctor.py
-- KEYS admin
-- QUEUE[1+] queues to mend
-- KEYS schedules, schedules:messages (admin/schedules)
-- ARGV[3] history  number that the doctor saw
-- ARGV[4+] edit  four each: what (hset, hdel, zadd, zrem, unlink, persist, count), number of the key, element, value
-- RETURNS OK history after the edits
-- RETURNS CONTINUE nothing was done: the store has changed meanwhile
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
local reply = context.open()
if reply then return reply end
if string.format("%.0f", context.history) ~= ARGV[3] then
  return context.close({ status.CONTINUE, "", 0, context.history })
end

-- The queue whose first key is this one of KEYS.
local function opened(number)
  return queue.open((tonumber(number) - 6) / 8 + 1, 5)
end

-- One of the numbers in a queue's line. Where they cannot be read all begin anew, and the next call looks at all.
local function recount(q, element, value)
  if not q then return end
  if not q.messages then
    q.messages, q.bytes, q.gone, q.due, q.waiting = 0, 0, 0, 0, true
    redis.call("HDEL", q.key, "statistics") -- it counts on from counters that are lost
    q.has_special, q.has_states = true, true
  end
  if element == "waiting" or element == "has_states" then
    q[element] = value == "1"
  else
    q[element] = tonumber(value)
  end
  queue.write(q)
end

context.mark_changed()
for n = 4, #ARGV, 4 do
  local what, key, element, value = ARGV[n], KEYS[tonumber(ARGV[n + 1])], ARGV[n + 2], ARGV[n + 3]
  if what == "hset" then
    redis.call("HSET", key, element, value)
    if string.sub(key, -2) == ":s" then recount(opened(ARGV[n + 1] - 4), "has_states", "1") end
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
  elseif key == KEYS[1] then
    context[element] = value
  else
    recount(opened(ARGV[n + 1]), element, value)
  end
  -- Configs are made again from the fields, if they were made from what is wrong.
  if what == "hset" or what == "hdel" then
    local q = key ~= KEYS[1] and string.sub(key, -2) == ":q" and opened(ARGV[n + 1])
    if q then
      queue.save_config(q)
    elseif key == KEYS[1] then
      redis.call("HDEL", key, "config")
    end
  end
end
return context.close({ status.OK, "", 0, context.history })
