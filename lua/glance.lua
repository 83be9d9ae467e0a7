-- Would a reader find something, or is a timer due? One call for all queues that a process waits on; changes nothing.
-- MS-MQDMPR 3.1.7.3.1 Wait For New Message
--
-- KEYS message
-- QUEUE[1+] the queues
-- RETURNS OK per queue "1" (look now) or "0", then ms until its next timer or -1
-- FLAGS allow-oom
--- require "lib/frame"
--- require "lib/queue"
--- require "lib/due"
local reply = frame.open()
if reply then return reply end
reply = { status.OK, "", 0 }
for n = 1, (#KEYS - 2) / 8 do
  local q = queue.open(n, 2)
  -- The queue's hint is never too late; only when it is due the timers themselves are looked at.
  local soon = q and (not q.due and -1 or q.due > frame.now and q.due - frame.now or due.next(q)) or 0
  reply[#reply + 1] = (not q or soon == 0 or redis.call("ZCARD", q.a) > 0) and "1" or "0"
  reply[#reply + 1] = soon
end
return frame.close(reply)
