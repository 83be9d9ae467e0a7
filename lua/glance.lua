-- Would a reader find something, or is a timer due? Was one handed a lock? One call for all that a process waits on;
-- changes nothing but the form of packed locks.
-- MS-MQDMPR 3.1.7.3.1 Wait For New Message
--
-- KEYS message
-- QUEUE[1+] the queues
-- ARGV[3+] slot, sequence  slots that wait, each with the sequence of its last call
-- RETURNS OK per queue "1" (look now) or "0", then ms until its next timer or -1; per slot "1" (look now) or "0"
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/timers"
-- With what each call reads of meta (context.read), so that it is no command more. A slot's own is no token here.
local fields, queues = { "brief", "counts", "" }, (#KEYS - 2) / 8
for n = 1, queues do fields[#fields + 1] = KEYS[n * 8 - 5] end
for n = 3, #ARGV, 2 do fields[#fields + 1] = ARGV[n] end
local meta = redis.call("HMGET", KEYS[1], unpack(fields))
local reply = context.open(false, meta, redis.call("TIME"))
if reply then return reply end
reply = { status.OK, "", 0 }
for n = 1, queues do
  local q = queue.open(n, 2, meta[n + 3])
  -- The queue's hint is never too late; only when it is due the timers themselves are looked at.
  local soon = q and (not q.due and -1 or q.due > context.now and q.due - context.now or timers.next(q)) or 0
  reply[#reply + 1] = (not q or soon == 0 or redis.call("ZCARD", q.a) > 0) and "1" or "0"
  reply[#reply + 1] = soon
end
for n = 3, #ARGV, 2 do
  -- Only who rings calls in the name of a slot that waits (waiting/handoff).
  local kept = meta[queues + (n + 5) / 2]
  reply[#reply + 1] = kept and string.match(kept, "^%d+") ~= ARGV[n + 1] and "1" or "0"
end
return context.close(reply)
