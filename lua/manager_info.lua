-- State of the queue manager.
-- MS-MQDMPR 3.1.1.1 QueueManager
--
-- KEYS admin
-- RETURNS OK queues, sessions, fields of open transactions, then fields and values
--- require "lib/frame"
local reply = frame.open()
if reply then return reply end
local fields = redis.call("HGETALL", KEYS[1])
reply = { status.OK, "", 0, redis.call("HLEN", KEYS[4]), redis.call("ZCARD", KEYS[6]), redis.call("HLEN", KEYS[3]) }
for n = 1, #fields do reply[#reply + 1] = fields[n] end
return frame.close(reply)
