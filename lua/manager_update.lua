-- Change the queue manager: throttle, quotas, and the clock of a test manager.
-- MS-MQDMPR 3.1.7.2.5-6 Begin and End Flow Control, 3.1.1.1 QueueManagerQuota
--
-- KEYS message
-- ARGV[3] what  throttled | quota | clock
-- ARGV[4] value  "1" or "0"; quota in messages, "" none; ms to move the clock by
-- ARGV[5] bytes  quota in bytes, "" none; "" otherwise
-- RETURNS OK now in ms
-- RETURNS ACCESS_DENIED
-- FLAGS allow-oom
--- require "core/context"
local reply = context.open()
if reply then return reply end
if ARGV[3] == "clock" then
  if redis.call("HGET", KEYS[1], "test") ~= "1" then return context.close({ status.ACCESS_DENIED }) end
  redis.call("HINCRBY", KEYS[1], "clock", ARGV[4])
  context.now = context.now + tonumber(ARGV[4])
elseif ARGV[3] == "throttled" then
  redis.call("HSET", KEYS[1], "throttled", ARGV[4])
else
  redis.call("HSET", KEYS[1], "quota_messages", ARGV[4], "quota_bytes", ARGV[5])
end
context.save_config()
context.mark_changed()
return context.close({ status.OK, "", 0, context.now })
