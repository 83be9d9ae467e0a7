--- require "core/context"
--- require "core/message_state"
--- require "core/position"
--- require "core/record"
--- require "core/store"
--- require lazy "features/copy"
--- require lazy "features/retry"
--- used by admin/bulk_actions
-- Changes messages that are available or delayed: they get another time, or another priority. Such a message leaves its
-- place, and arrives again with a new record, and with a new lookup id if its priority changes.
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
  copy.load()
  return record.set_flag(record.with(rec, "message_id", copy.identity(entry)), record.bits.special)
end

-- Returns the lookup id of an entry with this priority.
function rewrite.id(entry, priority)
  return string.format("%02x", 7 - priority) .. string.sub(entry.id, 3)
end

-- Gives entries of q, which are not locked, these records and lookup ids, by place. They are counted out and in again, so the
-- number of messages that have gone stays. Hooks of features take the timers and the index along, but for the retry policy's
-- timers.
function rewrite.apply(q, entries, recs, ids)
  local old, old_recs = position.columns_of(entries)
  position.before_move(q, old, old_recs)
  local fields, stateful, states, larges, left, bytes = {}, {}, {}, nil, 0, 0
  for n = 1, #entries do
    local entry = entries[n]
    local size = position.size(q, entry)
    left, bytes = left + size, bytes + size + #recs[n] - #entry.rec
    if entry.state then
      stateful[#stateful + 1] = entry.id
      entry.state.size = size + #recs[n] - #entry.rec
      states[#states + 1], states[#states + 2] = ids[n], message_state.format(entry.state)
    end
    if ids[n] ~= entry.id then
      fields[#fields + 1] = entry.id
      if record.has_large_body(entry.rec) then
        larges = larges or {}
        larges[n] = redis.call("HGET", q.records, "^" .. entry.id)
        fields[#fields + 1] = "^" .. entry.id
      end
    end
  end
  store.count(q, -#ids, -left)
  store.uncount_gone(q, #ids)
  store.remove(q, fields, old, nil, stateful)
  store.add(q, ids, recs, larges, bytes)
  store.set_states(q, states)
  context.mark_changed()
  position.arrive(q, ids, recs)
  if q.parent then
    retry.load()
    retry.rename_timers(q, old, ids)
  end
end
