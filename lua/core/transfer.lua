--- require "core/context"
--- require "core/position"
--- require "core/queue"
--- require "core/record"
--- require lazy "features/failure"
--- require lazy "features/features"
--- require lazy "features/trash"
--- require "core/store"
--- require "core/message_state"
--- used by admin/bulk_actions, features/retry, features/trash, move, transactions/commit
-- Moves messages to another queue of the same family (3.1.7.1.16): a queue, its subqueues, and what is in ;trash.
local transfer = {}

-- Moves messages from q to `target`, where they become available. They keep their ids and so their places in the order. An
-- entry's `report` (features/failure) goes into its record. `kept`: the field `trash` of messages that go to ;trash
-- (features/trash), nil elsewhere. Changes the entries to what is stored in the target.
--
-- Who calls this has left out expired messages, or has planned what they leave behind as they arrive (trace.expiring), and has
-- set the parent of the target (queue.set_parent).
--
-- The hooks `move` see the records as they are in the target; position.before_move sees the old ones, which the index and the
-- timers of q know.
function transfer.move(q, target, entries, kept)
  local ids, old_recs = position.columns_of(entries)
  local left, bytes = 0, 0
  for n = 1, #entries do
    left = left + position.size(q, entries[n])
    transfer.change(q, target, entries[n], kept)
    bytes = bytes + entries[n].state.size
  end
  if q.has_special then
    features.load()
    features.pass("move", q, entries, target)
  end
  position.before_move(q, ids, old_recs)
  local _, recs = position.columns_of(entries) -- those of the target
  transfer.write(q, target, entries, ids, recs, left, bytes)
  position.arrive(target, ids, recs)
end

-- Sets record and state of an entry to what they are in the target. A message that leaves ;poison for good, also by way of
-- ;trash, begins anew: it loses its report, and its attempts do not count any more.
function transfer.change(q, target, entry, kept)
  local state, size = entry.state or message_state.new(position.size(q, entry)), #entry.rec
  local anew = not kept and transfer.was_poison(q, entry) and not queue.is_subqueue(target, "poison")
  entry.rec = transfer.record(entry, anew, kept)
  state.size = state.size + #entry.rec - size
  if anew then state.uncounted = state.deliveries end
  state.aborts, state.moves, state.moved = 0, state.moves + 1, string.format("%.0f", context.now)
  message_state.free(state)
  entry.state = state
end

-- Is the message in ;poison, or was it there before it went to ;trash?
function transfer.was_poison(q, entry)
  if not queue.is_subqueue(q, "trash") then return queue.is_subqueue(q, "poison") end
  trash.load()
  return trash.origin(entry.rec) == "poison"
end

-- Returns the record that an entry gets in the target.
function transfer.record(entry, anew, kept)
  local rec = entry.rec
  if entry.report or anew then
    failure.load()
    rec = entry.report and failure.add(rec, entry.report) or failure.remove(rec)
  end
  if kept then
    rec = record.set_flag(record.with(rec, "trash", kept), record.bits.special)
  elseif record.is_special(rec) then
    rec = record.with(rec, "trash")
  end
  return rec
end

-- Removes entries from q, where they had `left` bytes, and stores them in the target, where they have `bytes`. `ids`, `recs`: the
-- same messages.
function transfer.write(q, target, entries, ids, recs, left, bytes)
  local larges, fields, states = nil, { nil }, { nil, nil }
  for n = 1, #entries do
    fields[#fields + 1] = ids[n]
    if record.has_large_body(recs[n]) then
      larges = larges or {}
      larges[n] = redis.call("HGET", q.records, "^" .. ids[n])
      fields[#fields + 1] = "^" .. ids[n]
    end
    states[n * 2 - 1], states[n * 2] = ids[n], message_state.format(entries[n].state)
  end
  store.count(q, -#ids, -left)
  store.remove(q, fields, ids, ids, ids)
  store.add(target, ids, recs, larges, bytes)
  store.set_states(target, states)
  context.mark_changed()
end
