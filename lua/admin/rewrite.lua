--- require "core/context"
--- require lazy "core/message_state"
--- require "core/position"
--- require lazy "core/record"
--- require "core/store"
--- require lazy "features/copy"
--- require lazy "features/retry"
--- used by admin/bulk_actions, features/retry
-- Changes messages that are available or delayed: they get another time, or another priority. Such a message leaves its
-- place, and arrives again with a new record, and with a new lookup id if its priority changes. For the actions due and priority of
-- bulk.lua (admin/bulk_actions), which make the new records and ids with rewrite.due, rewrite.priority and rewrite.id, and then
-- call rewrite.apply. Nothing has to be planned: bulk.lua leaves out messages that have expired.
-- Change together with: retry.rename_timers in features/retry, for another timer with a lookup id in it that no hook takes along.
-- Tests: tests/operator/test_bulk.py, test_priority.py.
local rewrite = {}

-- Returns the record of an entry that is to become available at `due`, in ms of broker time.
function rewrite.due(entry, due)
  local delay = due - record.arrived(entry.rec)
  local rec = record.with(entry.rec, "delay", string.format("%.0f", math.max(delay, 0)))
  return record.set_flag(rec, record.bits.special)
end

-- Returns the record of an entry with this priority, a digit. A message id that was made from the lookup id is written into it,
-- since the lookup id changes.
function rewrite.priority(entry, priority)
  local rec = record.with(entry.rec, "priority", priority)
  if record.field(rec, "message_id") then return rec end
  return record.set_flag(record.with(rec, "message_id", copy.identity(entry)), record.bits.special)
end

-- Returns the lookup id of an entry with this priority: two digits for 7 less the priority, then its SequentialID. Not for queues
-- in the order of sends (enqueue.ids), of which mqredis/operations/bulk.py changes no priorities.
function rewrite.id(entry, priority)
  return string.format("%02x", 7 - priority) .. string.sub(entry.id, 3)
end

-- Gives entries of q, which are not locked, these records and lookup ids, by place. position.before_move and position.arrive take
-- the timers and the index along (hooks `leave` and `arrive` of features, also of groups that take turns), but for the retry
-- policy's timers of messages in subqueues, which are in q.timers of the parent.
function rewrite.apply(q, entries, new_recs, new_ids)
  local old_ids, old_recs = position.columns_of(entries)
  position.before_move(q, old_ids, old_recs)
  rewrite.write(q, entries, new_recs, new_ids)
  context.mark_changed()
  position.arrive(q, new_ids, new_recs)
  if q.parent then retry.rename_timers(q, old_ids, new_ids) end
end

-- Removes the entries from the store, and stores them with these records and ids. They are counted out and in again, without being
-- gone. In this order: large bodies are read before store.remove, and store.count notes that no state is left before
-- store.set_states notes that there are some.
function rewrite.write(q, entries, new_recs, new_ids)
  local old_ids, old_fields, old_stateful = {}, {}, {} -- of q.available, q.records and q.states
  local id_states, larges = {}, nil -- id_states: new id, state, new id, state, ...; larges: large bodies by place
  local bytes_before, bytes_after = 0, 0
  for n = 1, #entries do
    local entry, old_size = entries[n], position.size(q, entries[n])
    local new_size = old_size + #new_recs[n] - #entry.rec
    bytes_before, bytes_after = bytes_before + old_size, bytes_after + new_size
    old_ids[n] = entry.id
    if entry.state then
      old_stateful[#old_stateful + 1] = entry.id
      entry.state.size = new_size
      id_states[#id_states + 1], id_states[#id_states + 2] = new_ids[n], message_state.format(entry.state)
    end
    if new_ids[n] ~= entry.id then -- else its record is replaced, and its large body stays
      old_fields[#old_fields + 1] = entry.id
      if record.has_large_body(entry.rec) then
        larges = larges or {}
        larges[n] = redis.call("HGET", q.records, "^" .. entry.id)
        old_fields[#old_fields + 1] = "^" .. entry.id
      end
    end
  end
  store.count(q, -#entries, -bytes_before)
  store.uncount_gone(q, #entries)
  store.remove(q, old_fields, old_ids, nil, old_stateful)
  store.add(q, new_ids, new_recs, larges, bytes_after)
  store.set_states(q, id_states)
end
