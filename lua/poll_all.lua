-- For all queues on which a process waits: is a message available or a timer due? And for all slots that wait: was a lock
-- handed to the reader? Changes nothing but the form of packed locks (core/locks).
-- MS-MQDMPR 3.1.7.3.1 Wait For New Message
--
-- CALLERS poll_all in mqredis/commands/manager.py
-- KEYS message
-- QUEUE[1+] the queues
-- ARGV[3+] slot, sequence  slots that wait, each with the sequence of its last call
-- RETURNS OK for each queue "1" (poll it now) or "0", then ms until its next timer or -1; for each slot "1" (a call was made
--   for it: poll now) or "0"
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/timers"
-- The headers of the queues and the slots are read with what every call reads of meta. This call has no token.
local fields, queues = { "config", "counters", "" }, queue.count_keys()
for n = 1, queues do fields[#fields + 1] = queue.nth_key(n) end
for n = 3, #ARGV, 2 do fields[#fields + 1] = ARGV[n] end
local meta = redis.call("HMGET", KEYS[1], unpack(fields))
local reply = context.open(false, meta, redis.call("TIME"))
if reply then return reply end
reply = context.reply(status.OK)
for n = 1, queues do
  local q = queue.open(n, nil, meta[n + 3])
  -- The time in the header is never later than the first timer; only when it has come the timers are read.
  local soon = q and (not q.due and -1 or q.due > context.now and q.due - context.now or timers.next(q)) or 0
  reply[#reply + 1] = (not q or soon == 0 or redis.call("ZCARD", q.available) > 0) and "1" or "0"
  reply[#reply + 1] = soon
end
for n = 3, #ARGV, 2 do
  -- While its reader waits, only a sender that hands a lock over makes a call for a slot (waiting/handoff).
  local kept = meta[queues + (n + 5) / 2]
  reply[#reply + 1] = kept and string.match(kept, "^%d+") ~= ARGV[n + 1] and "1" or "0"
end
return context.close(reply)
