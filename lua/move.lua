-- Move a message between a queue and its subqueues: same id, same place. No acknowledgement, no journal copy.
-- MS-MQDMPR 3.1.7.1.16 Move Message, MS-MQRR 3.1.4.10
--
-- CALLERS move in mqredis/commands/contents.py
-- KEYS message
-- QUEUE[1] the queue it is in
-- QUEUE[2] the target
-- QUEUE[3+] the parent, when both are subqueues
-- ARGV[3] generation  of the source
-- ARGV[4] generation  of the target
-- ARGV[5] id  lookup id
-- ARGV[6] transaction  id, "" outside a transaction
-- ARGV[7] fence  of the transaction, "+lease_ms" to begin it here, "" outside
-- RETURNS OK fence of the transaction
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS MESSAGE_NOT_FOUND
-- RETURNS MESSAGE_LOCKED_UNDER_TRANSACTION
-- RETURNS TRANSACTION_USAGE
-- RETURNS TRANSACTION_SEQUENCE
-- RETURNS TRANSACTION_TOO_LARGE
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
--- require "core/context"
--- require "core/queue"
--- require "core/timers"
--- require lazy "core/message_state"
--- require "core/position"
--- require "core/seek"
--- require lazy "transactions/tx"
--- require "waiting/waiters"
--- require "transactions/touched"
--- require "core/transfer"
--- require "core/store"
-- That both queues are of one family, and neither is a journal or of the system, is checked by the client (move and refuse_move in
-- mqredis/operations/handle.py).
-- Change together with: transactions/commit, which moves messages at the end of a transaction; bulk.lua, whose action move does it
-- for operators. Tests: tests/msmq/test_cases_moves.py, tests/conformance/test_states.py.
local source_generation, target_generation, lookup_id = ARGV[3], ARGV[4], ARGV[5]
local transaction_id, fence = ARGV[6], ARGV[7]
local reply = context.open()
if reply then return reply end
local queues = touched.queues() -- by encoded name; each subqueue has its parent
local q, target = queues[queue.nth_name(1)], queues[queue.nth_name(2)]
if not q or not target or q.generation ~= source_generation or target.generation ~= target_generation then
  return context.close({ status.QUEUE_NOT_AVAILABLE })
end
timers.serve(q)

local function finish(answer)
  for _, found in pairs(queues) do store.save(found) end
  answer = context.close(answer)
  waiters.notify(q)
  waiters.notify(target)
  return answer
end

if context.missing then return finish(context.missing) end

-- decide -----------------------------------------------------------------------------------------
local transaction, refusal
if transaction_id ~= "" then
  transaction, refusal = tx.enter(q, transaction_id, fence)
  if refusal then return finish({ refusal }) end
end
local entry = position.read(q, { lookup_id })[1]
if not entry then return finish({ status.MESSAGE_NOT_FOUND }) end
if not redis.call("ZSCORE", q.available, entry.id) then
  return finish({ status.MESSAGE_LOCKED_UNDER_TRANSACTION }) -- also if a reader has locked it, or it is delayed
end
-- What is locked expires when its lock ends.
if seek.expired(entry) then return finish({ status.MESSAGE_NOT_FOUND }) end

-- apply ------------------------------------------------------------------------------------------
if transaction then -- it moves at the commit
  position.lock_entries(q, { entry }, tx.lock(transaction, message_state.moved))
  tx.add(transaction, q, tx.moved, { entry.id }, queue.name(target))
else
  transfer.move(q, target, { entry })
end
return finish(context.reply(status.OK, transaction and transaction.fence or ""))
