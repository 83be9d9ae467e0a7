-- State of the queue manager.
-- MS-MQDMPR 3.1.1.1 QueueManager
--
-- KEYS admin
-- RETURNS OK queues, sessions, open transactions, then fields and values
-- FLAGS allow-oom
--- require "lib/frame"
local reply = frame.open()
if reply then return reply end
local fields, open = redis.call("HGETALL", KEYS[1]), 0
local units = redis.call("HGETALL", KEYS[3])
for n = 1, #units, 2 do -- "<id>:<k>" are operations (lib/tx)
  local deadline = not string.find(units[n], ":", 1, true) and string.match(units[n + 1], "^%d+")
  if deadline and tonumber(deadline) > frame.now then open = open + 1 end
end
reply = { status.OK, "", 0, redis.call("HLEN", KEYS[4]), redis.call("ZCARD", KEYS[6]), open }
for n = 1, #fields do reply[#reply + 1] = fields[n] end
return frame.close(reply)
