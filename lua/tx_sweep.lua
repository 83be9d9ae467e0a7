-- Forget transactions whose lease is over, in a scan of several calls. Each queue gives its messages back by itself (core/lapse).
-- MS-MQDMPR 3.1.4.5 Transaction Abort
--
-- CALLERS sweep in mqredis/commands/transactions.py
-- KEYS message
-- ARGV[3] cursor  "0" to begin, else what CONTINUE said
-- RETURNS OK the scan is over
-- RETURNS CONTINUE cursor of the next call
-- FLAGS allow-oom
--- require "core/context"
--- require "transactions/tx"
-- Change together with: session.sweep_transactions (core/session), with which session_open.lua does a part of the same.
-- Tests: tests/client/test_transaction.py.
local cursor, count = ARGV[3], 500 -- count: fields that a call looks at, about
local reply = context.open()
if reply then return reply end
cursor = tx.sweep(cursor, count)
if cursor == "0" then return context.close({ status.OK }) end
return context.close(context.reply(status.CONTINUE, cursor))
