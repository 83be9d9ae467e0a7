-- State of the queue manager.
-- MS-MQDMPR 3.1.1.1 QueueManager
--
-- KEYS admin
-- RETURNS OK queues, sessions, open transactions, messages, bytes, incarnation, history, schema,
--   throttled, quota_messages, quota_bytes
-- FLAGS allow-oom
--- require "core/context"
local reply = context.open()
if reply then return reply end
local open = 0
local units = redis.call("HGETALL", KEYS[2])
for n = 1, #units, 2 do -- "<id>:<k>" are operations (transactions/tx)
  local deadline = not string.find(units[n], ":", 1, true) and string.match(units[n + 1], "^%d+")
  if deadline and tonumber(deadline) > context.now then open = open + 1 end
end
reply = { status.OK, "", 0, redis.call("HLEN", KEYS[3]), redis.call("ZCARD", KEYS[5]), open, context.messages,
  context.bytes, context.incarnation, context.history }
for _, value in ipairs(redis.call("HMGET", KEYS[1], "schema", "throttled", "quota_messages", "quota_bytes")) do
  reply[#reply + 1] = value or ""
end
return context.close(reply)
