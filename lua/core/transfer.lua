--- require "core/context"
--- require "core/position"
--- require "core/record"
--- require lazy "features/failure"
--- require lazy "features/features"
--- require lazy "features/trash"
--- require "core/store"
--- require "core/message_state"
--- used by bulk, features/retry, features/trash, move, transactions/commit
-- Messages that change their queue inside a family (3.1.7.1.16).
local transfer = {}

-- The record of an entry in the target of its move.
function transfer.record(e, anew, kept)
  local rec = e.rec
  if e.report or anew then
    failure.load()
    rec = e.report and failure.add(rec, e.report) or failure.remove(rec)
  end
  if kept then
    rec = record.set_flag(record.with(rec, "trash", kept), record.bits.special)
  elseif record.is_special(rec) then
    rec = record.with(rec, "trash")
  end
  return rec
end

-- The same messages, ids and places, in another queue of the family (3.1.7.1.16). They are in neither q.available nor q.locked
-- of the source any more when this returns, and available in the target. An entry's `report` (features/failure) goes with
-- it; a message that leaves ;poison for good leaves its report there, and its attempts begin anew. `kept`: the value of key Z
-- of messages that go to ;trash for a time (features/trash).
function transfer.move(q, target, entries, kept)
  local ids, recs, larges, states, drop, left, bytes = {}, {}, nil, {}, {}, 0, 0
  local poison, trashed = string.find(q.key, "%3Bpoison:q", -12, true), string.find(q.key, "%3Btrash:q", -11, true)
  local leaves = (poison or trashed) and not kept and not string.find(target.key, "%3Bpoison:q", -12, true)
  if leaves and trashed then trash.load() end
  local old = { nil }
  for n = 1, #entries do
    local e = entries[n]
    local st = e.st or { deliveries = 0, aborts = 0, moves = 0, moved = 0, size = position.size(q, e) }
    left = left + st.size
    old[n] = e.rec
    local anew = leaves and (poison or trash.origin(e.rec) == "poison")
    e.rec = transfer.record(e, anew, kept)
    st.size = st.size + #e.rec - #old[n]
    if anew then st.uncounted = st.deliveries end
    st.aborts, st.moves, st.moved = 0, st.moves + 1, string.format("%.0f", context.now)
    message_state.free(st)
    e.st = st
    bytes = bytes + st.size
    ids[n] = e.lid
    recs[n] = e.rec
    drop[#drop + 1] = e.lid
    if record.has_large_body(e.rec) then
      larges = larges or {}
      larges[n] = redis.call("HGET", q.records, "^" .. e.lid)
      drop[#drop + 1] = "^" .. e.lid
    end
    states[#states + 1] = e.lid
    states[#states + 1] = message_state.format(st)
  end
  if q.has_special then
    features.load()
    features.pass("move", q, entries, target)
  end
  position.take_apart(q, ids, old)
  store.count(q, -#ids, -left)
  store.remove(q, drop, ids, ids, ids)
  store.add(target, ids, recs, larges, bytes)
  store.set_states(target, states)
  context.mark_changed()
  position.arrive(target, ids, recs)
end
