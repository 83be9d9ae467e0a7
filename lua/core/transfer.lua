--- require "core/context"
--- require "core/position"
--- require "core/queue"
--- require lazy "core/record"
--- require lazy "features/failure"
--- require lazy "features/features"
--- require lazy "features/trash"
--- require "core/store"
--- require lazy "core/message_state"
--- used by admin/bulk_actions, features/retry, features/trash, move, transactions/commit
-- Moves messages to another queue of the same family (3.1.7.1.16). A family is a queue and its subqueues, also ;trash.
--
-- Change together with: what a message has in q beside its record, its place, its state and its members of the index must be taken
-- along, or left behind on purpose: by a hook of its feature (`move`, or `leave` and `arrive`), or by the caller, as features/retry
-- does with the policy's timers. admin/rewrite does the same within one queue. Tests: tests/msmq/test_cases_moves.py,
-- tests/operator/test_trash.py and, for retry policies, tests/msmq/test_failed.py.
local transfer = {}

-- Moves messages, given as entries (core/position), from q to `target`, where they become available. They keep their ids and so
-- their places in the order. Changes the entries to what is stored in the target. An entry's `report` (features/failure) goes into
-- its record. `trash_value`: the field `trash` that they get, if the target is ;trash (trash.value), else nil.
--
-- q was opened with queue.open. A message locked in its header has got its state before (queue.expand_locks), and messages in
-- pages of claims do not come here. The others may be in any list of q or in none; a lock of a transaction ends with the move. The
-- caller has left out expired messages, or has planned what they leave behind as they arrive (trace.expiring), and has set the
-- parent of the target (queue.set_parent).
--
-- The hooks `move` see the records as they are in the target; position.before_move sees the old ones, which the index and the
-- timers of q know, and reads from q what transfer.write removes.
function transfer.move(q, target, entries, trash_value)
  local ids, old_recs = position.columns_of(entries)
  local bytes_before, bytes_after = 0, 0
  for n = 1, #entries do
    bytes_before = bytes_before + position.size(q, entries[n])
    transfer.change_entry(q, target, entries[n], trash_value)
    bytes_after = bytes_after + entries[n].state.size
  end
  if q.has_special then features.pass("move", q, entries, target) end
  position.before_move(q, ids, old_recs)
  local _, new_recs = position.columns_of(entries)
  transfer.write(q, target, entries, ids, new_recs, bytes_before, bytes_after)
  position.arrive(target, ids, new_recs)
end

-- Sets record and state of an entry to what they are in the target. A message that leaves ;poison for good, also by way of
-- ;trash, begins anew: it loses its report, and its attempts do not count any more.
function transfer.change_entry(q, target, entry, trash_value)
  local state, old_size = entry.state or message_state.new(position.size(q, entry)), #entry.rec
  local begins_anew = not trash_value and transfer.was_poison(q, entry) and not queue.is_subqueue(target, "poison")
  entry.rec = transfer.new_record(entry, begins_anew, trash_value)
  state.size = state.size + #entry.rec - old_size
  if begins_anew then state.uncounted = state.deliveries end
  state.aborts, state.moves, state.last_move_ms = 0, state.moves + 1, string.format("%.0f", context.now)
  message_state.free(state)
  entry.state = state
end

-- Is the message in ;poison, or was it there before it went to ;trash?
function transfer.was_poison(q, entry)
  if not queue.is_subqueue(q, "trash") then return queue.is_subqueue(q, "poison") end
  return trash.origin(entry.rec) == "poison"
end

-- Returns the record that an entry gets in the target: with its report, or without one if it begins anew; with or without the field
-- `trash`.
function transfer.new_record(entry, begins_anew, trash_value)
  local rec = entry.rec
  if entry.report or begins_anew then rec = entry.report and failure.add(rec, entry.report) or failure.remove(rec) end
  if trash_value then
    rec = record.set_flag(record.with(rec, "trash", trash_value), record.bits.special)
  elseif record.is_special(rec) then
    rec = record.with(rec, "trash")
  end
  return rec
end

-- Removes entries from q, where they had `bytes_before` bytes, and stores them in the target, where they have `bytes_after`. `ids`,
-- `recs`: columns of the same messages.
function transfer.write(q, target, entries, ids, recs, bytes_before, bytes_after)
  local larges, record_fields, id_states = nil, { nil }, { nil, nil } -- id_states: id, state, id, state, ...
  for n = 1, #entries do
    record_fields[#record_fields + 1] = ids[n]
    if record.has_large_body(recs[n]) then
      larges = larges or {}
      larges[n] = redis.call("HGET", q.records, "^" .. ids[n])
      record_fields[#record_fields + 1] = "^" .. ids[n]
    end
    id_states[n * 2 - 1], id_states[n * 2] = ids[n], message_state.format(entries[n].state)
  end
  store.count(q, -#ids, -bytes_before)
  store.remove(q, record_fields, ids, ids, ids) -- whichever list they are in
  store.add(target, ids, recs, larges, bytes_after)
  store.set_states(target, id_states)
  context.mark_changed()
end
