--- require "core/context"
--- require "core/queue"
--- require "core/quota"
--- require lazy "features/other_queues"
--- require "core/enqueue"
--- require lazy "transactions/tx"
--- require lazy "core/record"
--- require "features/subscription"
--- require lazy "features/trace"
--- used by publish
-- Publishes messages that are sent to a topic: a copy goes to every queue whose subscription selects it
-- (features/subscription). The topic itself keeps no message. publish.lua calls topic.plan, which writes nothing, and then
-- topic.deliver.
--
-- `transaction` is the open transaction in which the messages are sent (transactions/tx), nil outside of one. Its kind
-- decides which subscribers get the messages: transactional queues, or all others.
--
-- Change together with: what topic.deliver adds to a copy must be counted in topic.pick, which computes its size before it has its
-- id. send.lua decides the same for a queue: a new refusal there mostly belongs into topic.plan_subscriber, too. Tests:
-- tests/msmq/test_topics.py; the model that tests compare the broker with is tests/model/topics.py.
local topic = {}

-- Returns the messages of a batch (core/enqueue) as entries {rec, large, priority, id}. `priorities`: a digit for each message.
-- topic.number sets their ids.
function topic.entries(batch, priorities)
  local entries = {}
  for n = 1, #batch.records do
    local large = batch.larges and batch.larges[n] or nil
    entries[n] = { rec = batch.records[n], large = large, priority = string.sub(priorities, n, n), id = nil }
  end
  return entries
end

-- Gives entries lookup ids, and returns these.
function topic.number(entries, transaction)
  local priorities = {}
  for n = 1, #entries do priorities[n] = entries[n].priority end
  local ids = enqueue.ids(table.concat(priorities), #entries, transaction)
  for n = 1, #entries do entries[n].id = ids[n] end
  return ids
end

-- Decides which messages go where, and notes that as `plans` (queue.notes), a list of {to, entries}. Returns a status if one
-- of the queues refuses: a durable subscriber misses nothing, so all get the messages or none does. A subscriber that was
-- deleted, or that takes no messages of this kind, is passed over. `entries`: of topic.entries.
function topic.plan(q, entries, transaction)
  local names, texts = subscription.all(q)
  local plans, total = {}, { messages = 0, bytes = 0 } -- total: of all copies that are planned
  queue.notes(q).plans = plans
  -- A manager that is full, or throttled, refuses messages without a subscriber, too.
  if quota.manager_refuses(0, 0) then return status.ENQUEUE_MANAGER_QUOTA end
  for n = 1, #names do
    local to = other_queues.find(names[n])
    if to and (transaction ~= nil) == to.options.transactional then
      local picked, bytes = topic.pick(entries, texts[names[n]], to)
      local code = picked[1] and topic.plan_subscriber(to, picked, bytes, total, transaction)
      if code then return code end
      if picked[1] then plans[#plans + 1] = { to = to, entries = picked } end
    end
  end
end

-- Decides for the messages that one subscriber gets, as topic.pick returns them: returns the status with which its queue refuses
-- them; or nil, with the messages counted in `total`.
function topic.plan_subscriber(to, picked, bytes, total, transaction)
  if to.options.put_inhibited then return status.PUT_INHIBITED end
  if not bytes then return status.MESSAGE_TOO_LARGE end
  local code = topic.refuses(to, #picked, bytes, total)
  if code then return code end
  total.messages, total.bytes = total.messages + #picked, total.bytes + bytes
  if transaction and transaction.count + total.messages > tx.most then return status.TRANSACTION_TOO_LARGE end
  if not transaction then
    trace.plan_accepted(picked)
    trace.expiring(to, picked)
  end
end

-- Returns the status with which a quota refuses, or nil. The subscriber's queue has to admit `count` messages of `bytes` bytes, the
-- manager these besides `total`, what the subscribers before it get.
function topic.refuses(to, count, bytes, total)
  local messages, held = context.messages, context.bytes
  context.messages, context.bytes = messages + total.messages, held + total.bytes
  local code = quota.refuses(to, count, bytes)
  context.messages, context.bytes = messages, held
  return code
end

-- Returns the messages that a subscription selects, as entries of their own, whose field `of` is the published one; and their
-- bytes, false if one is too large for the queue `to`.
function topic.pick(entries, text, to)
  local wants, picked, bytes = subscription.open(text), {}, 0
  for n = 1, #entries do
    local entry = entries[n]
    if wants(entry.rec) then
      local rec = entry.rec
      -- One dedup key guards the topic; the copies must not carry it into the queues.
      if record.field(rec, "dedup_key") then
        local stop = string.find(rec, "\0", record.head_at, true)
        rec = record.suspend(string.sub(rec, 1, stop - 1), record.dedup_fields) .. string.sub(rec, stop)
      end
      -- What topic.deliver adds: one message id for all copies, as the publisher is told it; and the field `trail`, empty,
      -- with which each copy counts, since it is not known yet which ones are marked for a trail (enqueue.append).
      local id_bytes = record.field(rec, "message_id") and 0 or #topic.id_field("0000000000000000")
      local trail_bytes = to.options.trail and #record.fields.trail or 0
      local size = #rec + (entry.large and #entry.large or 0) + id_bytes + trail_bytes
      picked[#picked + 1] = { rec = rec, large = entry.large, priority = entry.priority, id = nil, of = entry }
      bytes = bytes and size <= to.max_bytes and bytes + size
    end
  end
  return picked, bytes
end

-- Returns the field with the message id that is made from this lookup id, as a head has it.
function topic.id_field(lookup_id)
  return record.fields.message_id .. record.made_message_id(lookup_id)
end

-- Puts the messages into the queues, as topic.plan has decided. The copies have lookup ids of their own, and all the same
-- message id: that which the publisher has chosen, or is told.
function topic.deliver(q, transaction)
  local plans = queue.notes(q).plans
  if transaction and #plans == 0 then tx.save(transaction) end
  for n = 1, #plans do
    local plan = plans[n]
    for k = 1, #plan.entries do
      local entry = plan.entries[k]
      if not record.field(entry.rec, "message_id") then
        local rec = record.set_flag(entry.rec, record.bits.special)
        entry.rec = record.prepend(rec, topic.id_field(entry.of.id))
      end
    end
    local ids, batch = topic.number(plan.entries, transaction), enqueue.new_batch({ nil })
    for k = 1, #plan.entries do enqueue.append(batch, plan.entries[k].rec, plan.entries[k].large, plan.to) end
    enqueue.put(plan.to, ids, batch, transaction)
  end
end
