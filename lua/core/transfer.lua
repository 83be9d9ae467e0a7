--- require "core/context"
--- require "core/position"
--- require "core/queue"
--- require "core/record"
--- require lazy "features/failure"
--- require lazy "features/features"
--- require lazy "features/trash"
--- require "core/store"
--- require "core/message_state"
--- used by bulk, features/retry, features/trash, move, transactions/commit
-- Messages that change their queue inside a family (3.1.7.1.16).
local transfer = {}

-- Returns the record that an entry gets in the target of its move. `anew`, `kept`: as in transfer.move.
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

-- Moves messages from q to `target`, a queue of the same family, where they are available. They keep their ids and so their
-- places in the order. An entry's `report` (features/failure) goes into its record. A message that leaves ;poison for good
-- loses its report, and its attempts begin anew. `kept`: the field `trash` of messages that go to ;trash (features/trash).
function transfer.move(q, target, entries, kept)
  local ids, recs, larges, states, drop, left, bytes = {}, {}, nil, {}, {}, 0, 0
  local poison, trashed = queue.is_subqueue(q, "poison"), queue.is_subqueue(q, "trash")
  local leaves = (poison or trashed) and not kept and not queue.is_subqueue(target, "poison")
  if leaves and trashed then trash.load() end
  local old = { nil }
  for n = 1, #entries do
    local e = entries[n]
    local st = e.st or message_state.new(position.size(q, e))
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
  position.before_move(q, ids, old)
  store.count(q, -#ids, -left)
  store.remove(q, drop, ids, ids, ids)
  store.add(target, ids, recs, larges, bytes)
  store.set_states(target, states)
  context.mark_changed()
  position.arrive(target, ids, recs)
end
