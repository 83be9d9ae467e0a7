-- Forget transactions whose lease is over, up to 64 in a call. Each queue gives its messages back by itself (core/lapse).
-- MS-MQDMPR 3.1.4.5 Transaction Abort
--
-- CALLERS sweep in mqredis/commands/transactions.py
-- KEYS message
-- RETURNS OK number of transactions forgotten
-- RETURNS CONTINUE number of transactions forgotten by this call; there may be more
-- FLAGS allow-oom
--- require "core/context"
--- require "transactions/tx"
-- Change together with: session.sweep_transactions in core/session, which forgets a few in each call of session_open.lua.
local txs = KEYS[2]
local reply = context.open()
if reply then return reply end
local ended = tx.list(redis.call("HGETALL", txs), false)
local count = math.min(#ended, 64)
for n = 1, count do tx.forget(ended[n]) end
return context.close(context.reply(count == 64 and status.CONTINUE or status.OK, count))
