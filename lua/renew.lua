-- Renew the lease of a transaction. Its messages keep their old deadline until their queue looks at it, and gets the new one from
-- the transaction (core/lapse): so a lease does not get shorter.
-- MS-MQDMPR 3.1.1.14 Transaction
--
-- CALLERS renew in mqredis/commands/transactions.py
-- KEYS message
-- ARGV[3] transaction  id
-- ARGV[4] fence  of the transaction
-- ARGV[5] lease  ms from now, at least
-- RETURNS OK deadline in ms, now in ms
-- RETURNS TRANSACTION_SEQUENCE no transaction with this id and fence is open
-- FLAGS allow-oom
--- require "core/context"
--- require "transactions/tx"
-- Tests: tests/conformance/test_transaction.py, tests/client/test_refusals.py.
local id, fence, lease = ARGV[3], ARGV[4], tonumber(ARGV[5])
local reply = context.open()
if reply then return reply end
local transaction = tx.open(id, fence)
if not transaction then return context.close({ status.TRANSACTION_SEQUENCE }) end
context.mark_changed()
transaction.deadline = string.format("%d", math.max(transaction.deadline + 0, context.now + lease))
tx.save(transaction)
return context.close(context.reply(status.OK, transaction.deadline, context.now))
