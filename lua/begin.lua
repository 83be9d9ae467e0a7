-- Begin a transaction under an id that the caller chose. One without a chosen id begins with its first operation.
-- MS-MQDMPR 3.1.7.1.8 Create Transaction
--
-- KEYS message
-- ARGV[3] transaction  id
-- ARGV[4] lease  ms
-- RETURNS OK fence, deadline in ms, now in ms
-- RETURNS TRANSACTION_SEQUENCE
-- FLAGS allow-oom
--- require "core/context"
--- require "transactions/tx"
local reply = context.open()
if reply then return reply end
local t, code = tx.open(ARGV[3], "+" .. ARGV[4])
if not t then return context.close({ code }) end
context.mark_changed()
tx.save(t)
return context.close({ status.OK, "", 0, t.fence, t.deadline, context.now })
