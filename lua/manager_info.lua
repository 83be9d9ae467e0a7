-- State of the queue manager.
-- MS-MQDMPR 3.1.1.1 QueueManager
--
-- CALLERS info in mqredis/commands/manager.py, opening_call in mqredis/drivers/attempt.py
-- KEYS admin
-- RETURNS OK queues, sessions, open transactions, messages, bytes, incarnation, history, schema,
--   throttled ("1" or "0"), quota_messages, quota_bytes ("" no quota)
-- FLAGS no-writes
--- require "core/context"
--- require "transactions/tx"
-- A client that may only read calls it in place of session_open.lua, for the incarnation and the history number
-- (mqredis/drivers/core.py). Change together with: `info` in mqredis/commands/manager.py, which takes the elements by place.
-- Tests: tests/conformance/test_manager.py, test_quota.py.
local txs, queues, idle = KEYS[2], KEYS[3], KEYS[5]
local reply = context.observe()
if reply then return reply end
local open = #tx.list(redis.call("HGETALL", txs), true)
reply = context.reply(status.OK, redis.call("HLEN", queues), redis.call("ZCARD", idle), open, context.messages,
  context.bytes, context.incarnation, context.history)
for _, value in ipairs(redis.call("HMGET", KEYS[1], "schema", "throttled", "quota_messages", "quota_bytes")) do
  reply[#reply + 1] = value or ""
end
return context.close(reply)
