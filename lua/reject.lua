-- Mark a message received in an open transaction as rejected: at commit it leaves with a negative acknowledgement.
-- MS-MQRR 3.1.4.14 R_SetUserAcknowledgementClass
--
-- CALLERS reject in mqredis/commands/transactions.py
-- KEYS message
-- QUEUE[1] the queue it was received from
-- ARGV[3] transaction  id
-- ARGV[4] fence  of the transaction
-- ARGV[5] id  lookup id
-- ARGV[6] reason  text, "" none
-- RETURNS OK
-- RETURNS TRANSACTION_SEQUENCE no transaction with this id and fence is open
-- RETURNS TRANSACTION_USAGE the transaction has not received this message
-- RETURNS MESSAGE_NOT_FOUND
-- FLAGS allow-oom
--- require "core/context"
--- require "core/message_state"
--- require "core/queue"
--- require "core/position"
--- require "transactions/tx"
local id, fence, lid, reason = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local reply = context.open()
if reply then return reply end
local transaction, refusal = tx.open(id, fence)
if not transaction then return context.close({ refusal }) end
local q = queue.open(1)
local e = q and position.read(q, { lid })[1]
if not e then return context.close({ status.MESSAGE_NOT_FOUND }) end
if not e.st or e.st.owner ~= id or not message_state.is_received(e.st) then
  return context.close({ status.TRANSACTION_USAGE })
end
tx.reject(tx.read(id), queue.name(q), lid, reason)
context.mark_changed()
return context.close({ status.OK })
