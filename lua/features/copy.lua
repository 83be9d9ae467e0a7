--- require "core/context"
--- require "core/quota"
--- require "core/record"
--- require lazy "core/queue"
--- require lazy "features/other_queues"
--- require lazy "core/position"
--- require lazy "features/failure"
--- require lazy "features/trail"
--- require "core/store"
--- require "core/message_state"
--- used by admin/operator, admin/redrive, admin/rewrite, features/trace
-- Messages that the broker itself puts into a queue: copies of others, and acknowledgements.
local copy = {}

-- What a message asks for: nothing acts on it in a copy, and a redriven message asks for it again. Its dedup key has been
-- used.
copy.requests = { "time_to_be_received", "time_to_reach_queue", "delay", "acknowledge", "administration_queue",
  "dead_letter_queue", "journal" }

-- What a copy tells of the message that it was made from. Also the place in ;trash, where no copy is kept.
copy.about = { "sent_ms_before", "original_queue", "original_lookup_id", "reason", "original_arrived_ms", "trash" }

-- The message id of an entry as its head keeps it: one made from the lookup id where the sender gave none. A message
-- that was refused has no lookup id, so none but the sender's own id names it.
function copy.identity(e)
  return record.field(e.rec, "message_id") or e.lid and "smq-" .. e.lid
end

-- Puts a record into a queue, unless its quota forbids. In queues of the system and in transactional ones the order is
-- that of arrival; elsewhere the message's priority counts. Returns the id or nothing. `must`: whatever the quotas
-- say.
function copy.insert(to, head, body, large, flag, st, must)
  local rec = string.format("%s%x", context.now_text, flag) .. head .. body
  local size = #rec + #large
  if not must and not quota.fits(to, 1, size) then return end
  context.seq = context.seq + 1
  local flat = (to.options.transactional or to.options.system) and 0 or 7 - record.priority(rec)
  local e = { lid = string.format("%02x%014x", flat, context.seq), rec = rec, size = size }
  store.add(to, { e.lid }, { rec }, large ~= "" and { large } or nil, size)
  if st then
    st = message_state.copy(st, size)
    store.set_states(to, { e.lid, message_state.format(st) })
    e.st = st
  end
  context.mark_changed()
  position.arrive(to, { e.lid }, { e.rec })
  return e.lid
end

-- A copy of an entry of q: in a journal or among the dead letters. What the message asked for is kept in the
-- copy with "~" before the field's key, so that nothing acts on it.
function copy.put(q, to, e, class, reason)
  if queue.is_subqueue(to, "journal") then copy.limits(q, to) end
  local rec, fields = e.rec, record.fields
  if e.report then
    failure.load()
    rec = failure.remove(rec)
  end
  local stop = string.find(rec, "\0", 15, true)
  local head = record.suspend(string.sub(rec, 15, stop - 1), copy.requests)
  head = record.suspend(head, record.dedup_fields)
  head = record.without(head, copy.about) -- a copy of a copy tells where it was last
  local arrived = tonumber(string.sub(e.rec, 1, 13))
  local sent = arrived - tonumber(record.field(e.rec, "sent_ms_before") or 0)
  if e.lid then
    if not record.field(e.rec, "message_id") then head = head .. fields.message_id .. copy.identity(e) end
    head = head .. fields.original_lookup_id .. e.lid
  end
  if class > 0 then head = record.without(head, { "message_class" }) .. fields.message_class .. class end
  -- As long as it may get, so that the size of a copy does not depend on how fast its message passed.
  head = head .. fields.original_queue .. other_queues.decode(queue.name(q))
    .. fields.reason .. reason .. (e.why and ": " .. e.why or "")
    .. fields.original_arrived_ms .. string.format("%.0f", context.shown(arrived))
    .. fields.sent_ms_before .. string.format("%013.0f", context.now - sent)
  if class > 0 then head = head .. copy.expiry(q, context.now - sent) end
  -- Only a dead letter goes the message's way on.
  local trailed = string.find(head, fields.trail, 1, true)
  if trailed then
    trail.load()
    head = trail.carry(head, class > 0 and trail.number(e.lid, e.rec))
  end
  head = (e.report or "") .. head
  local large = e.large or record.has_large_body(e.rec) and redis.call("HGET", q.records, "^" .. e.lid) or ""
  local flag = record.set_flag(e.rec, record.bits.special)
  local st = e.st
  if reason == "receive" and (not st or not message_state.is_locked(st)) then
    -- Taken without a lock, so this delivery is not in its state.
    st = st and message_state.copy(st, st.size) or message_state.new(0)
    st.deliveries = st.deliveries + 1
  end
  local lid = copy.insert(to, head, string.sub(rec, stop), large, tonumber(string.sub(flag, 14, 14), 16), st,
    reason == "poison") -- features/retry asks for room before it chooses this end
  if lid and class > 0 then
    redis.call("HINCRBY", (q.parent or q).key, "dead", 1)
    if trailed then trail.copied(q, to, e, lid, "dead_lettered", reason .. (e.why and ": " .. e.why or "")) end
  end
  return lid
end

-- What has a dead letter of a message of q, sent `age` ms ago, expire when its time there is over; "" if nothing does.
function copy.expiry(q, age)
  local kept = tonumber(redis.call("HGET", (q.parent or q).key, "failed_ttl") or "")
  return kept and record.fields.time_to_be_received .. string.format("%.0f", age + kept * 1000) or ""
end

-- The quota of a target journal stands with its queue.
function copy.limits(q, to)
  if to.limited or queue.name(to) == "system%24%3Bjournal" then return end
  to.limited, to.altered = true, true
  local limits = redis.call("HMGET", (q.parent or q).key, "journal_quota_messages", "journal_quota_bytes")
  to.quota_messages, to.quota_bytes = tonumber(limits[1] or ""), tonumber(limits[2] or "")
end

-- An acknowledgement about an entry of q (MS-MQDMPR 3.1.7.2.1). A negative one carries the body.
function copy.acknowledge(q, to, e, class)
  if to.options.transactional or to.options.put_inhibited then return end
  local stop = string.find(e.rec, "\0", 15, true)
  local home = string.match(queue.name(q), "^(.-)%%3B") or queue.name(q)
  local fields, id = record.fields, copy.identity(e)
  local head = fields.message_class .. class .. fields.response_queue .. other_queues.decode(home)
  local wants = tonumber(record.field(e.rec, "acknowledge") or 0)
  if id and math.floor(wants / 128) % 2 == 1 then head = head .. fields.message_id .. id end
  if math.floor(wants / 64) % 2 == 1 then id = record.field(e.rec, "correlation_id") end
  if id then head = head .. fields.correlation_id .. id end
  if record.field(e.rec, "recoverable") then head = head .. fields.recoverable .. "0" end
  if class < 0x8000 then return copy.insert(to, head, "\0", "", 1) end
  if e.why then head = head .. fields.reason .. e.why end
  local kind = record.field(e.rec, "content_type")
  if kind then head = head .. fields.content_type .. kind end
  if not record.has_large_body(e.rec) then return copy.insert(to, head, string.sub(e.rec, stop), "", 1) end
  local large = e.large or redis.call("HGET", q.records, "^" .. e.lid) or ""
  return copy.insert(to, head, "\0", large, 9)
end

-- The queue that a failed message came from: that of which it is a copy; that whose ;poison it is in; or, of a copy that a
-- worker of the release before made, what its property says. Nothing if the message does not tell.
function copy.origin(q, e)
  local origin = record.field(e.rec, "original_queue")
  if origin then return origin end
  local name = string.match(queue.name(q), "^(.*)%%3Bpoison$")
  if name then return other_queues.decode(name) end
  local head = string.sub(e.rec, 15, string.find(e.rec, "\0", 15, true) - 1)
  return string.match(head, "\1dead_letter_queue\2s([^\1\3]+)")
end

-- What a worker of the release before added to its copies; read for one release.
copy.former = { "reason", "queue", "message_id", "deliveries" }

-- The message of which e is a copy, as a new one for `to`, without its body: what the copy tells of itself goes, and what
-- the message asked for counts again.
function copy.original(to, e)
  failure.load()
  local rec = failure.remove(e.rec)
  local stop = string.find(rec, "\0", 15, true)
  local head = record.without(record.without(string.sub(rec, 15, stop - 1), copy.about), { "message_class" })
  -- Of a copy, this is its own time (copy.expiry).
  if record.field(rec, "original_queue") then head = record.without(head, { "time_to_be_received" }) end
  head = record.resume(head, copy.requests)
  if string.find(head, "\1dead_letter_queue\2", 1, true) then
    for n = 1, #copy.former do
      head = string.gsub(head, "\1dead_letter_" .. copy.former[n] .. "\2[^\1\3]*", "")
    end
  end
  if not to.options.transactional then
    head = record.without(head, { "transaction_id" })
  elseif not record.field(e.rec, "transaction_id") then
    head = head .. record.fields.transaction_id .. "redrive"
  end
  return head, string.sub(rec, stop)
end

function copy.revive(q, to, e)
  local head, body = copy.original(to, e)
  local large = record.has_large_body(e.rec) and redis.call("HGET", q.records, "^" .. e.lid) or ""
  local flag = record.set_flag(e.rec, record.bits.special)
  local trailed = record.field(e.rec, "trail")
  if trailed then
    trail.load()
    head = trail.carry(head, trail.number(e.lid, e.rec))
  end
  local lid = copy.insert(to, head, body, large, tonumber(string.sub(flag, 14, 14), 16))
  if lid and trailed then trail.copied(q, to, e, lid, "redriven", "") end
  return lid
end
