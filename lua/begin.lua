-- Begin a transaction under an id that the caller chose. A transaction without a chosen id begins with its first
-- operation (a fence "+<lease ms>" in send.lua, receive.lua, publish.lua, lookup.lua and move.lua).
-- MS-MQDMPR 3.1.7.1.8 Create Transaction
--
-- CALLERS begin in mqredis/commands/transactions.py
-- KEYS message
-- ARGV[3] transaction  id
-- ARGV[4] lease  ms from now
-- RETURNS OK fence, deadline in ms, now in ms
-- RETURNS TRANSACTION_SEQUENCE a transaction with this id is open
-- FLAGS allow-oom
--- require "core/context"
--- require "transactions/tx"
-- Change together with: the five scripts above, which begin a transaction by tx.open; FENCES of
-- mqredis/commands/arguments.py lists them (tests/contract/test_arguments.py compares).
-- Tests: tests/conformance/test_transaction.py.
local id, lease = ARGV[3], ARGV[4]
local reply = context.open()
if reply then return reply end
local found = tx.find(id)
if found and found.is_open then return context.close({ status.TRANSACTION_SEQUENCE }) end
local transaction = tx.new(id, lease + 0, found and found.count or 0)
context.mark_changed() -- the history number of this call is the fence
tx.save(transaction)
return context.close(context.reply(status.OK, transaction.fence, transaction.deadline, context.now))
