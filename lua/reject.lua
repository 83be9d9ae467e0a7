-- Mark a message received in an open transaction as rejected: at commit it leaves with a negative acknowledgement.
-- MS-MQRR 3.1.4.14 R_SetUserAcknowledgementClass
--
-- CALLERS reject in mqredis/commands/transactions.py
-- KEYS message
-- QUEUE[1] the queue it was received from
-- ARGV[3] transaction  id
-- ARGV[4] fence  of the transaction
-- ARGV[5] id  lookup id
-- ARGV[6] reason  text, "" none; a later call for the same message replaces it
-- RETURNS OK
-- RETURNS TRANSACTION_SEQUENCE no transaction with this id and fence is open
-- RETURNS TRANSACTION_USAGE the transaction has not received this message
-- RETURNS MESSAGE_NOT_FOUND
-- FLAGS allow-oom
--- require "core/context"
--- require lazy "core/message_state"
--- require "core/queue"
--- require "core/position"
--- require "transactions/tx"
-- Change together with: tx_parts.add_entry and commit.apply_entries (transactions/), which carry it out at the commit.
-- Tests: tests/msmq/test_removals.py, tests/client/test_refusals.py.
local transaction_id, fence, id, reason = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local reply = context.open()
if reply then return reply end
local transaction = tx.open(transaction_id, fence)
if not transaction then return context.close({ status.TRANSACTION_SEQUENCE }) end
local q = queue.open(1)
local entry = q and position.read(q, { id })[1]
if not entry then return context.close({ status.MESSAGE_NOT_FOUND }) end
if not entry.state or entry.state.owner ~= transaction_id or not message_state.is_received(entry.state) then
  return context.close({ status.TRANSACTION_USAGE })
end
tx.reject(tx.read(transaction_id), queue.name(q), id, reason) -- with its operations, which tx.open has not read
context.mark_changed()
return context.close({ status.OK })
