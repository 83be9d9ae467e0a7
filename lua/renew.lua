-- Renew the lease of a transaction. Its messages keep their old deadline until it is looked at again (core/due).
-- MS-MQDMPR 3.1.1.14 Transaction
--
-- KEYS message
-- ARGV[3] transaction  id
-- ARGV[4] fence
-- ARGV[5] lease  ms from now
-- RETURNS OK deadline in ms, now in ms
-- RETURNS TRANSACTION_SEQUENCE
-- FLAGS allow-oom
--- require "core/context"
--- require "transactions/tx"
local reply = context.open()
if reply then return reply end
local t, code = tx.open(ARGV[3], ARGV[4])
if not t then return context.close({ code }) end
context.mark_changed()
t.deadline = string.format("%.0f", context.now + tonumber(ARGV[5]))
tx.save(t)
return context.close({ status.OK, "", 0, t.deadline, context.now })
