-- Change properties of a queue. Messages that are there already stay, whatever a new quota says.
-- MS-MQDMPR 3.1.1.2 Queue
--
-- KEYS admin
-- QUEUE[1] the queue
-- ARGV[3] flags  characters to set, "" none
-- ARGV[4] unset  characters to clear, "" none
-- ARGV[5+] property  name and value, in turn
-- RETURNS OK
-- RETURNS QUEUE_NOT_FOUND
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "waiting/waiters"
--- require "waiting/notify"
local reply = context.open()
if reply then return reply end
local q = queue.open(1, 5)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end
context.mark_changed()
local flags = ""
for c in string.gmatch(q.flags .. ARGV[3], ".") do
  if not string.find(ARGV[4], c, 1, true) and not string.find(flags, c, 1, true) then flags = flags .. c end
end
redis.call("HSET", q.q, "flags", flags, "modified", context.now, unpack(ARGV, 5))
queue.save_config(q)
reply = context.close({ status.OK })
-- Readers that wait find out at once that reading was switched off.
if string.find(ARGV[3], "g", 1, true) then notify.all(q) end
return reply
