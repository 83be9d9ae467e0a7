-- Put 1..N messages into a queue: all of them, or none.
-- MS-MQDMPR 3.1.7.1.9 Enqueue Message
--
-- CALLERS send_texts in mqredis/commands/send.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] queues that KEYS_CHANGED named
-- ARGV[3] generation  of the queue behind the handle
-- ARGV[4] transaction  id, "" outside a transaction
-- ARGV[5] fence  of the transaction, "+lease_ms" to begin it here, "" outside a transaction
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
--- require "core/enqueue"
--- require "core/queue"
--- require lazy "core/quota"
--- require "core/store"
--- require lazy "core/timers"
--- require lazy "waiting/handoff"
--- require lazy "waiting/waiters"
--- require lazy "features/features"
--- require lazy "features/refusal"
--- require lazy "transactions/tx"
-- Change together with: the three other places that decide whether a message may come. They are no one function, since each
-- decides about something else; tests/contract/test_headers.py compares what they refuse, and tests/client/test_stages.py in
-- which order.
--   publish.lua      with features/topic: the message for the topic, and then its copies for each subscriber
--   claims/publish   stages of several queues, from their totals; no transaction, and sizes are checked when messages are staged
--   admin/schedules  one message, which is a transaction of its own in a transactional queue; it has no time of sending
-- Further with: features/refusal, for a status with which a message leaves something behind; tests/contract/test_send_path.py,
-- which counts the lines that a plain send runs. Tests: tests/conformance/test_send.py, test_quota.py; tests/msmq/test_traces.py.
local generation, transaction_id, fence, priorities = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local first, transactional = 7, transaction_id ~= "" -- first: place of the first message in ARGV
local reply = context.open()
if reply then return reply end
local q = queue.read(1)
if not q or q.generation ~= generation then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
local more_timers, handed -- of timers.serve and handoff.offer
if queue.is_due(q) then more_timers = timers.serve(q, true) end

-- decide -----------------------------------------------------------------------------------------
if context.missing then return waiters.finish(q, context.missing) end
local code, transaction, batch
if transactional ~= q.options.transactional then
  code = status.TRANSACTION_USAGE
elseif q.options.put_inhibited then
  code = status.PUT_INHIBITED
elseif transactional then
  transaction = tx.open(transaction_id, fence)
  if not transaction then code = status.TRANSACTION_SEQUENCE end
end
if not code then batch, code = enqueue.parse(q, first) end
local count = batch and #batch.records
if transaction and batch and transaction.count + count > tx.most then code = status.TRANSACTION_TOO_LARGE end
if not code and (context.manager.limited or q.quota_messages or q.quota_bytes) then
  code = quota.refuses(q, count, batch.bytes)
end
if not code and batch.asking then code = features.plan(q, batch.asking, transactional) end

-- A refusal may leave negative acknowledgements and dead letters, which are decided first, too. Messages whose time is over refuse
-- no other one: if the call could not serve all timers, the client calls again before anything is refused.
if code or context.missing then
  if code and more_timers then context.ask_again() end
  if not context.missing then refusal.trace(q, code, first, transactional) end
  return waiters.finish(q, context.missing or { code })
end

-- apply ------------------------------------------------------------------------------------------
context.mark_changed()
local ids = enqueue.ids(priorities, count, transactional)
enqueue.put(q, ids, batch, transaction)
if q.waiting and count == 1 and not transaction then handed = handoff.offer(q, ids[1], batch.records[1]) end
reply = context.reply(status.OK, ids[2] and table.concat(ids) or ids[1], transaction and transaction.fence)
-- As waiters.finish, but that a lock which was handed over is published before readers are notified.
store.save(q)
reply = context.close(reply)
if handed then handoff.publish(handed) end
if q.waiting or context.sides then waiters.notify(q) end
return reply
