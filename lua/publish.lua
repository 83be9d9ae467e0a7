-- Publish 1..N messages: put each into every queue that subscribed to the topic, all of them or none.
-- MS-MQDMPR 3.1.7.1.27 Enqueue Message To An Open Queue, of a topic: docs/semantics.md
--
-- CALLERS send_texts in mqredis/commands/send.py
-- KEYS message
-- QUEUE[1] the topic
-- QUEUE[2+] subscribers
-- ARGV[3] generation  of the topic behind the handle
-- ARGV[4] transaction  id, "" outside a transaction
-- ARGV[5] fence  of the transaction, "+lease_ms" to begin it here, "" outside
-- ARGV[6] priorities  a digit for each message
-- ARGV[7+] message  flag digit, head, NUL, body (core/record); behind one with flag bit 8 its large body
-- RETURNS OK ids of the messages (16 digits each, nothing between them), fence of the transaction if there is one
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS TRANSACTION_SEQUENCE
-- RETURNS TRANSACTION_USAGE
-- RETURNS TRANSACTION_TOO_LARGE
-- RETURNS PUT_INHIBITED
-- RETURNS MESSAGE_TOO_LARGE
-- RETURNS ENQUEUE_TIMED_OUT
-- RETURNS ENQUEUE_MANAGER_QUOTA
-- RETURNS ENQUEUE_QUEUE_QUOTA
-- RETURNS DUPLICATE
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
--- require "core/context"
--- require "core/queue"
--- require "core/timers"
--- require "core/enqueue"
--- require lazy "features/features"
--- require "features/topic"
--- require lazy "transactions/tx"
--- require "waiting/waiters"
-- Change together with: send.lua, which has the same arguments, and names all who refuse by the same rules. A refusal leaves no
-- acknowledgement here (features/refusal). Tests: tests/msmq/test_topics.py.
local generation, transaction_id, fence, priorities = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local first, transactional = 7, transaction_id ~= "" -- first: place of the first message in ARGV
local reply = context.open()
if reply then return reply end
local q = queue.open(1)
if not q or q.generation ~= generation then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
timers.serve(q, true) -- a topic keeps no messages, so what is left over of its timers makes no difference

-- decide -----------------------------------------------------------------------------------------
if context.missing then return waiters.finish(q, context.missing) end
if transactional ~= q.options.transactional then return waiters.finish(q, { status.TRANSACTION_USAGE }) end
if q.options.put_inhibited then return waiters.finish(q, { status.PUT_INHIBITED }) end
local transaction
if transactional then
  transaction = tx.open(transaction_id, fence)
  if not transaction then return waiters.finish(q, { status.TRANSACTION_SEQUENCE }) end
end
local batch, code = enqueue.parse(q, first)
if not batch then return waiters.finish(q, { code }) end
local entries = topic.entries(batch, priorities)
-- `true` for features.plan and features.accept, as in a transaction: nothing arrives in the topic itself. topic.plan does for each
-- copy what a send outside of a transaction does.
if batch.asking then
  code = features.plan(q, batch.asking, true)
  if code then return waiters.finish(q, { code }) end
end
code = topic.plan(q, entries, transaction) -- asks for the queues of subscribers, and applies all limits to the copies
if code then return waiters.finish(q, { code }) end
if context.missing then return waiters.finish(q, context.missing) end

-- apply ------------------------------------------------------------------------------------------
context.mark_changed()
local ids = topic.number(entries, transaction)
if batch.asking then features.accept(q, batch.asking, ids, true) end
topic.deliver(q, transaction)
return waiters.finish(q, context.reply(status.OK, table.concat(ids), transaction and transaction.fence))
