--- require "core/context"
--- require "core/quota"
--- require lazy "core/record"
--- require "core/queue"
--- require "features/other_queues"
--- require "core/position"
--- require lazy "core/enqueue"
--- require lazy "features/expiry"
--- require lazy "features/failure"
--- require lazy "features/trail"
--- require "core/store"
--- require lazy "core/message_state"
--- used by admin/operator, admin/redrive, admin/rewrite, features/trace
-- Messages that the broker itself puts into a queue: copies in journals and among the dead letters, acknowledgements
-- (features/trace), redriven messages (admin/redrive), and the log of actions (admin/operator).
--
-- A copy keeps what its message asked for, but with "~" before the key of such a field, so that nothing acts on it. It
-- tells of the message in the fields copy.about. A dead letter has a message class as well, and may expire. The copy of
-- a message in a journal asks for nothing, and has the class of the message.
--
-- Change together with: a field with which a message asks for something is among copy.requests (tests/contract/test_features.py);
-- what a copy gets in addition must fit into the margin of features/retry_policy (copy.head says why), and is known to the model
-- that tests compare the broker with (tests/model/traces.py, adm.py). Tests: tests/msmq/test_traces.py, test_removals.py, and
-- test_failed.py for dead letters.
local copy = {}

-- The fields with which a message asks for something, and again when it is redriven from a copy. Its dedup key is not
-- among them, since that has been used.
copy.requests = { "time_to_be_received", "time_to_reach_queue", "delay", "acknowledge", "administration_queue",
  "dead_letter_queue", "journal" }

-- The fields with which a copy tells of the message that it was made from, and the place in ;trash, which no copy
-- keeps.
copy.about = { "sent_ms_before", "original_queue", "original_lookup_id", "reason", "original_arrived_ms", "trash" }

-- Returns the message id of an entry: one made from the lookup id where the sender gave none. nil for a message that
-- was refused and so has no lookup id, if the sender gave none.
function copy.identity(entry)
  return record.field(entry.rec, "message_id") or entry.id and record.made_message_id(entry.id)
end

-- Returns the head of a message made of an entry, which gets another lookup id, with the message id that the entry has.
function copy.with_identity(head, entry)
  if record.field(entry.rec, "message_id") then return head end
  return head .. record.fields.message_id .. copy.identity(entry)
end

-- Puts a new message into a queue, and returns its lookup id. `flag`: a sum of record.bits; `body`: with the "\0" in
-- front of it; `large`: a body that is kept apart, "" if there is none; `state`: the state of the message that it is a
-- copy of, or nil. In queues of the system, and in transactional ones, the order is that of arrival; elsewhere the
-- message's priority counts.
function copy.insert(to, flag, head, body, large, state)
  local rec = string.format("%s%x", context.now_text, flag) .. head .. body
  local size = #rec + #large
  local id = enqueue.ids(record.priority(rec), 1, to.options.transactional or to.options.system)[1]
  store.add(to, { id }, { rec }, large ~= "" and { large } or nil, size)
  if state then store.set_states(to, { id, message_state.format(message_state.copy(state, size)) }) end
  context.mark_changed()
  position.arrive(to, { id }, { rec })
  return id
end

-- As copy.insert, if the quotas have room; else returns nil. `q`: the queue of the message that it is made of.
function copy.insert_if_room(q, to, flag, head, body, large, state)
  local size = #context.now_text + 1 + #head + #body + #large
  if not quota.fits(to, 1, size) then copy.make_room(q, to) end
  if quota.fits(to, 1, size) then return copy.insert(to, flag, head, body, large, state) end
end

-- Deletes messages that have expired in `to`, since no client may call a queue that only the broker writes to. What has expired
-- in the queue that the script works on, or in its subqueues, is left alone: it may be about to be deleted.
function copy.make_room(q, to)
  if queue.split_name(queue.name(q)) == queue.split_name(queue.name(to)) then return end
  expiry.drop(to)
end

-- Puts a copy of an entry of q, which leaves it for this reason, into `to`. `class`: of a dead letter; nil for a
-- journal copy. Returns the copy's lookup id; nil if there is no room for it.
function copy.put(q, to, entry, class, reason)
  if queue.is_subqueue(to, "journal") then copy.set_journal_quota(q, to) end
  local rec = entry.rec
  if entry.report then rec = failure.remove(rec) end
  local old_head, body = record.split(rec)
  local head, trailed = copy.head(q, entry, old_head, class, reason)
  local large = entry.large or record.has_large_body(entry.rec) and redis.call("HGET", q.records, "^" .. entry.id) or ""
  local flag, state = copy.flag(entry.rec), copy.state(entry, reason)
  local id
  if reason == "poison" then -- features/retry_policy has looked for room
    id = copy.insert(to, flag, head, body, large, state)
  else
    id = copy.insert_if_room(q, to, flag, head, body, large, state)
  end
  if id and class then
    redis.call("HINCRBY", queue.home(q).key, "dead", 1)
    local detail = reason .. (entry.why and ": " .. entry.why or "")
    if trailed then trail.copied(q, to, entry, id, "dead_lettered", detail) end
  end
  return id
end

-- Returns the head of a copy, and whether it has a trail. `head`: that of the entry, without a report of its failure. What is added
-- here must fit into retry_policy.margin, by which the retry policy looks for room; only a reason (entry.why) may be longer.
function copy.head(q, entry, head, class, reason)
  local fields = record.fields
  head = record.suspend(head, copy.requests)
  head = record.suspend(head, record.dedup_fields)
  head = record.without(head, copy.about) -- a copy of a copy tells where it was last
  local arrived = record.arrived(entry.rec)
  local sent = arrived - tonumber(record.field(entry.rec, "sent_ms_before") or 0)
  if entry.id then
    head = copy.with_identity(head, entry) .. fields.original_lookup_id .. entry.id
  end
  if class then head = record.without(head, { "message_class" }) .. fields.message_class .. class end
  head = head .. fields.original_queue .. other_queues.decode(queue.name(q))
    .. fields.reason .. reason .. (entry.why and ": " .. entry.why or "")
    .. fields.original_arrived_ms .. string.format("%.0f", context.shown(arrived))
    -- 13 digits, so that the size of a copy, which quotas count, does not depend on how fast its message passed: the model that the
    -- tests compare the broker with (tests/model/adm.py) has to know it.
    .. fields.sent_ms_before .. string.format("%013.0f", context.now - sent)
  if class then head = head .. copy.expiry(q, context.now - sent) end
  local trailed = string.find(head, fields.trail, 1, true)
  if trailed then
    head = trail.carry(head, class and trail.number(entry.id, entry.rec)) -- a journal copy has no part in the trail
  end
  return (entry.report or "") .. head, trailed
end

-- Returns the flag of a new message made of this record, as a number.
function copy.flag(rec)
  return tonumber(string.sub(record.set_flag(rec, record.bits.special), record.flag_at, record.flag_at), 16)
end

-- Returns the state whose counters a copy gets; nil if there is none. The delivery of a message that was received
-- without a lock is not in its state.
function copy.state(entry, reason)
  local state = entry.state
  if reason == "receive" and (not state or not message_state.is_locked(state)) then
    state = state and message_state.copy(state, state.size) or message_state.new(0)
    state.deliveries = state.deliveries + 1
  end
  return state
end

-- Returns the field with which a dead letter of a message of q expires; "" if it does not. `age`: how long ago the
-- message was sent, in ms, since its time to be received counts from there.
function copy.expiry(q, age)
  local kept = tonumber(redis.call("HGET", queue.home(q).key, "failed_ttl") or "")
  return kept and record.fields.time_to_be_received .. string.format("%.0f", age + kept * 1000) or ""
end

-- Reads the quota of a journal, which is a property of the queue that it belongs to.
function copy.set_journal_quota(q, to)
  local notes = queue.notes(to)
  if notes.has_quota or queue.name(to) == other_queues.system.journal then return end
  notes.has_quota = true
  local limits = redis.call("HMGET", queue.home(q).key, "journal_quota_messages", "journal_quota_bytes")
  queue.set_quota(to, tonumber(limits[1] or ""), tonumber(limits[2] or ""))
end
