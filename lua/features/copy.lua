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
-- Messages that the broker itself puts into a queue: copies of others, and acknowledgements.
local copy = {}

-- The message id of an entry as its head keeps it: one made from the lookup id where the sender gave none. A message
-- that was refused has no lookup id, so none but the sender's own id names it.
function copy.identity(e)
  return record.field(e.rec, "m") or e.lid and "smq-" .. e.lid
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
    st = { deliveries = st.deliveries, aborts = st.aborts, moves = st.moves, moved = st.moved, size = size,
      uncounted = st.uncounted,
      kind = "-", owner = "-", fence = 0 }
    store.set_states(to, { e.lid, message_state.format(st) })
    e.st = st
  end
  context.mark_changed()
  position.arrive(to, { e.lid }, { e.rec })
  return e.lid
end

-- A copy of an entry of q: in a journal or among the dead letters. What the message asked for is put to sleep in the
-- copy ("~" before the field's key), so nothing acts on it.
function copy.put(q, to, e, class, reason)
  if string.find(to.key, "%3Bjournal:q", -13, true) then copy.limits(q, to) end
  local rec = e.rec
  if e.report then
    failure.load()
    rec = failure.remove(rec)
  end
  local stop = string.find(rec, "\0", 15, true)
  local head = string.gsub(string.sub(rec, 15, stop - 1), "\3([euDaAQjkK])", "\3~%1")
  -- Of a copy of a copy: it tells where it was last. A copy is kept in no trash.
  head = string.gsub(head, "\3[SOIRBZ][^\1\3]*", "")
  local arrived = tonumber(string.sub(e.rec, 1, 13))
  local sent = arrived - tonumber(record.field(e.rec, "S") or 0)
  if e.lid then
    if not record.field(e.rec, "m") then head = head .. "\3m" .. copy.identity(e) end
    head = head .. "\3I" .. e.lid
  end
  if class > 0 then head = string.gsub(head, "\3C%d+", "") .. "\3C" .. class end
  -- As long as it may get, so that the size of a copy does not depend on how fast its message passed.
  head = head .. "\3O" .. other_queues.decode(queue.name(q)) .. "\3R" .. reason .. (e.why and ": " .. e.why or "")
    .. string.format("\3B%.0f\3S%013.0f", context.shown(arrived), context.now - sent)
  if class > 0 then head = head .. copy.life(q, context.now - sent) end
  -- Only a dead letter goes the message's way on.
  local trailed = string.find(head, "\3L", 1, true)
  if trailed then
    trail.load()
    head = trail.carry(head, class > 0 and trail.number(e.lid, e.rec))
  end
  head = (e.report or "") .. head
  local large = e.large or record.flag(e.rec, 8) and redis.call("HGET", q.records, "^" .. e.lid) or ""
  local flag = record.set_flag(e.rec, 1)
  local st = e.st
  if reason == "receive" and (not st or st.kind == "-") then
    -- Taken without a lock, so this delivery is not in its state.
    st = { deliveries = (st and st.deliveries or 0) + 1, aborts = st and st.aborts or 0, moves = st and st.moves or 0,
      moved = st and st.moved or 0 }
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
function copy.life(q, age)
  local kept = tonumber(redis.call("HGET", (q.parent or q).key, "failed_ttl") or "")
  return kept and string.format("\3e%.0f", age + kept * 1000) or ""
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
  local head, id = "\3C" .. class .. "\3r" .. other_queues.decode(home), copy.identity(e)
  local wants = tonumber(record.field(e.rec, "a") or 0)
  if id and math.floor(wants / 128) % 2 == 1 then head = head .. "\3m" .. id end
  if math.floor(wants / 64) % 2 == 1 then id = record.field(e.rec, "c") end
  if id then head = head .. "\3c" .. id end
  if record.field(e.rec, "d") then head = head .. "\3d0" end
  if class < 0x8000 then return copy.insert(to, head, "\0", "", 1) end
  if e.why then head = head .. "\3R" .. e.why end
  local kind = record.field(e.rec, "y")
  if kind then head = head .. "\3y" .. kind end
  if not record.flag(e.rec, 8) then return copy.insert(to, head, string.sub(e.rec, stop), "", 1) end
  local large = e.large or redis.call("HGET", q.records, "^" .. e.lid) or ""
  return copy.insert(to, head, "\0", large, 9)
end

-- The queue that a failed message came from: that of which it is a copy; that whose ;poison it is in; or, of a copy that a
-- worker of the release before made, what its property says. Nothing if the message does not tell.
function copy.origin(q, e)
  local origin = record.field(e.rec, "O")
  if origin then return origin end
  local name = string.match(queue.name(q), "^(.*)%%3Bpoison$")
  if name then return other_queues.decode(name) end
  local head = string.sub(e.rec, 15, string.find(e.rec, "\0", 15, true) - 1)
  return string.match(head, "\1dead_letter_queue\2s([^\1\3]+)")
end

-- What a worker of the release before added to its copies; read for one release.
copy.former = { "reason", "queue", "message_id", "deliveries" }

-- The message of which e is a copy, as a new one for `to`, without its body: the marks of the copy go, what slept in it
-- wakes up.
function copy.awake(to, e)
  failure.load()
  local rec = failure.remove(e.rec)
  local stop = string.find(rec, "\0", 15, true)
  local head = string.gsub(string.sub(rec, 15, stop - 1), "\3[COIRBSZ][^\1\3]*", "")
  if record.field(rec, "O") then head = string.gsub(head, "\3e[^\1\3]*", "") end -- the life of the copy (copy.life)
  head = string.gsub(head, "\3~([euDaAQj])", "\3%1")
  if string.find(head, "\1dead_letter_queue\2", 1, true) then
    for n = 1, #copy.former do
      head = string.gsub(head, "\1dead_letter_" .. copy.former[n] .. "\2[^\1\3]*", "")
    end
  end
  if not to.options.transactional then
    head = string.gsub(head, "\3T[^\1\3]*", "")
  elseif not record.field(e.rec, "T") then
    head = head .. "\3Tredrive"
  end
  return head, string.sub(rec, stop)
end

function copy.revive(q, to, e)
  local head, body = copy.awake(to, e)
  local large = record.flag(e.rec, 8) and redis.call("HGET", q.records, "^" .. e.lid) or ""
  local flag = record.set_flag(e.rec, 1)
  local trailed = record.field(e.rec, "L")
  if trailed then
    trail.load()
    head = trail.carry(head, trail.number(e.lid, e.rec))
  end
  local lid = copy.insert(to, head, body, large, tonumber(string.sub(flag, 14, 14), 16))
  if lid and trailed then trail.copied(q, to, e, lid, "redriven", "") end
  return lid
end
