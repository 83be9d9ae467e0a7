--- require "core/context"
--- require lazy "core/queue"
--- require "core/quota"
--- require lazy "features/other_queues"
--- require lazy "core/enqueue"
--- require lazy "transactions/tx"
--- require lazy "core/record"
--- require "features/subscription"
--- require lazy "features/trace"
--- used by publish
-- Topics: a message sent to one is put into every queue that subscribed to it; the topic keeps none.
-- A subscription is a field of the topic's hash: "sub:" and the queue's encoded name (features/subscription).
local topic = {}

-- Decide: which messages go where. Returns a refusal if one of the queues refuses: a durable subscriber misses nothing,
-- so all get the messages or none does. A subscriber that was deleted, or that takes no messages of this kind, is
-- passed over.
function topic.plan(q, entries, t)
  local names, texts = subscription.all(q)
  local total, room = 0, 0
  q.plans, q.altered = {}, true
  other_queues.load()
  if quota.refuses(q, 0, 0) then return status.ENQUEUE_MANAGER_QUOTA end
  for n = 1, #names do
    local to = other_queues.find(names[n])
    if to and (t ~= nil) == to.options.transactional then
      local picked, bytes = topic.pick(entries, texts[names[n]], to)
      if #picked > 0 then
        if to.options.put_inhibited then return status.PUT_INHIBITED end
        if not bytes then return status.MESSAGE_TOO_LARGE end
        total, room = total + #picked, room + bytes
        local code = topic.refuses(to, #picked, bytes, total, room)
        if code then return code end
        if t and t.count + total > tx.most then return status.TRANSACTION_TOO_LARGE end
        q.plans[#q.plans + 1] = { to = to, entries = picked }
        if not t and topic.hooked(picked) then
          trace.load()
          trace.plan_accepted(picked)
          trace.expiring(to, picked)
        end
      end
    end
  end
end

-- Does the quota of a subscriber refuse what it is to get, or that of the manager what all are to get?
function topic.refuses(to, count, bytes, total, room)
  local messages, held = context.messages, context.bytes
  context.messages, context.bytes = messages + total - count, held + room - bytes
  local code = quota.refuses(to, count, bytes)
  context.messages, context.bytes = messages, held
  return code
end

-- The messages that a subscription wants, as entries of their own, and their bytes; no bytes if one is too large.
function topic.pick(entries, text, to)
  local wants, picked, bytes = subscription.open(text), {}, 0
  local exclusive = to.options.group_exclusive
  for n = 1, #entries do
    local e = entries[n]
    if wants(e.rec) then
      local rec = e.rec
      -- One dedup key guards the topic; the copies must not carry it into the queues.
      if record.is_special(rec) and record.field(rec, "dedup_key") then
        local stop = string.find(rec, "\0", 15, true)
        rec = record.suspend(string.sub(rec, 1, stop - 1), record.dedup_fields) .. string.sub(rec, stop)
      end
      if exclusive then rec = record.set_flag(rec, record.bits.special) end
      -- One message id for all copies, as the publisher is told it: 22 bytes more, once the id is known. Marked for a
      -- trail a copy is longer by two bytes.
      local size = #rec + (e.large and #e.large or 0) + (record.field(rec, "message_id") and 0 or 22)
        + (to.options.trail and 2 or 0)
      picked[#picked + 1] = { rec = rec, large = e.large, size = size, priority = e.priority, of = e }
      bytes = bytes and size <= to.max_bytes and bytes + size
    end
  end
  return picked, bytes
end

function topic.hooked(entries)
  for n = 1, #entries do
    if record.is_special(entries[n].rec) then return true end
  end
  return false
end

-- Apply. The copies have ids of their own, behind those that the publisher is told.
function topic.deliver(q, t)
  if t and #q.plans == 0 then tx.save(t) end
  for n = 1, #q.plans do
    local plan = q.plans[n]
    for k = 1, #plan.entries do
      local e = plan.entries[k]
      if not record.field(e.rec, "message_id") then
        local rec = record.set_flag(e.rec, record.bits.special)
        e.rec = string.sub(rec, 1, 14) .. record.fields.message_id .. "smq-" .. e.of.lid .. string.sub(rec, 15)
      end
    end
    enqueue.number(plan.entries, t)
    local ids = {}
    for k = 1, #plan.entries do ids[k] = plan.entries[k].lid end
    enqueue.put(plan.to, ids, enqueue.batch(plan.to, plan.entries), t)
  end
end
