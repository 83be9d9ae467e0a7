-- State of the queue manager.
-- MS-MQDMPR 3.1.1.1 QueueManager
--
-- KEYS admin
-- RETURNS OK queues, sessions, open transactions, then fields and values
--- require "lib/frame"
local reply = frame.open()
if reply then return reply end
local fields, open = redis.call("HGETALL", KEYS[1]), 0
for _, field in ipairs(redis.call("HKEYS", KEYS[3])) do
  if not string.find(field, ":", 1, true) then open = open + 1 end -- the others are operations (lib/tx)
end
reply = { status.OK, "", 0, redis.call("HLEN", KEYS[4]), redis.call("ZCARD", KEYS[6]), open }
for n = 1, #fields do reply[#reply + 1] = fields[n] end
return frame.close(reply)
