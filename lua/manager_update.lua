-- Change the queue manager: throttle, quotas, and the clock of a test manager.
-- MS-MQDMPR 3.1.7.2.5-6 Begin and End Flow Control, 3.1.1.1 QueueManagerQuota
--
-- CALLERS update in mqredis/commands/manager.py
-- KEYS message
-- ARGV[3] what  throttled | quota | clock
-- ARGV[4] value  throttled: "1" or "0"; quota: in messages, "" none; clock: ms by which it moves forward
-- ARGV[5] bytes  quota: in bytes, "" none; else ""
-- RETURNS OK
-- RETURNS ACCESS_DENIED the clock of a manager that is not for tests does not move
-- FLAGS allow-oom
--- require "core/context"
--- require "core/manager_config"
-- Change together with: core/manager_config, for another property; session_open.lua, which writes those of a new manager.
-- Tests: tests/conformance/test_quota.py, test_manager.py.
local what, value, quota_bytes = ARGV[3], ARGV[4], ARGV[5]
local reply = context.open()
if reply then return reply end
if what == "clock" then
  if redis.call("HGET", KEYS[1], "test") ~= "1" then return context.close({ status.ACCESS_DENIED }) end
  redis.call("HINCRBY", KEYS[1], "clock", value)
elseif what == "throttled" then
  redis.call("HSET", KEYS[1], "throttled", value)
else
  redis.call("HSET", KEYS[1], "quota_messages", value, "quota_bytes", quota_bytes)
end
manager_config.save()
context.mark_changed()
return context.close({ status.OK })
