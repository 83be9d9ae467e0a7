-- Create a queue.
-- MS-MQDMPR 3.1.7.1.3 Create Queue
--
-- KEYS admin
-- QUEUE[1] the new queue
-- ARGV[3] name  as written
-- ARGV[4+] property  name and value, in turn; flags: t transactional, j journaling, p put inhibited, g get inhibited
-- RETURNS OK generation, now in ms
-- RETURNS QUEUE_EXISTS
--- require "core/context"
--- require "core/queue"
local reply = context.open()
if reply then return reply end
if queue.open(1, 5) then return context.close({ status.QUEUE_EXISTS }) end
context.mark_changed()
local generation = string.format("%.0f", redis.call("HINCRBY", KEYS[1], "generations", 1))
queue.create(KEYS[6], generation, unpack(ARGV, 4))
redis.call("HSET", KEYS[3], ARGV[3], generation)
return context.close({ status.OK, "", 0, generation, context.now })
