--- require "core/chunked"
--- require "core/context"
--- require "core/message_state"
--- require "core/record"
--- require "core/store"
--- require lazy "core/locks"
--- require lazy "features/features"
--- require lazy "features/trace"
--- require lazy "matching/index"
--- used by admin/bulk_actions, admin/bulk_progress, admin/operator, admin/redrive, admin/rewrite and others
-- The state machine of a message (MessagePosition, MS-MQDMPR 3.1.1.11): what a change of state means for the index of
-- identifiers, for the features that a message asks for, and for the counters. core/store writes it.
--
--   state      stored as                                             changes to    by
--   sent       record only, while a script works on it               available     arrive
--                                                                    locked        enqueue.put, in a transaction
--                                                                    delayed       arrive, if its delay is not over
--   available  member of q.available                                 locked        lock
--                                                                    deleted       delete
--   locked     member of q.locked, with a state (core/message_state); available     release.unlock, then arrive
--              or in the header of its queue (core/locks);           deleted       delete, delete_locked
--              or in a packed page of a claim (claims/claim_pages)
--   delayed    timer "d"id (features/delivery_delay)                 available     arrive, by the timer
--                                                                    deleted       delete
--
-- Here and elsewhere messages are given in one of two forms. Names of arguments tell which one a function takes:
--
--   ids, recs, states   columns: ids[n] (lookup ids), recs[n] (records) and states[n] (tables of core/message_state, false for
--              none) belong to one message. This is the cheaper form, for messages that are locked and read in great numbers
--   entry      one message as a table {id, rec, state}: lookup id, record, state or nil; entries: a list of such tables. Entries
--              that are released or deleted also collect what copies, trails and the retry policy need to know:
--                why      why its reader rejected it or gave it back
--                report   properties that describe the failure, in the form of a head (core/record; features/failure)
--                verdict  how its reader gave it back; rest: how long it must rest then, in ms; alone: true if
--                         it is to be read alone then; retried: true if this ended a delivery that had failed (core/release)
--                lapsed   true: its lease is over
--                letters  encoded name of the queue for its dead letter (features/retry_policy)
--                event    what its trail says, if that is not what usually happens at this place (features/trail)
--                holder   slot or transaction that had locked it (core/release, for features/trail)
--
-- nothing: what plain messages ask for, by place; it stays empty
local position = { nothing = {} }

-- Returns the columns recs and states of available messages; false where a message has none.
function position.columns(q, ids)
  local recs, states = chunked.read(q.records, ids), { nil }
  local texts = q.has_states and chunked.read(q.states, ids)
  for n = 1, #ids do
    local text = texts and texts[n]
    states[n] = text and message_state.parse(text) or false
  end
  return recs, states
end

-- Returns columns as entries, without the messages that have no record.
function position.entries(ids, recs, states)
  local entries, at = { nil }, 0
  for n = 1, #ids do
    if recs[n] then
      at = at + 1
      entries[at] = { id = ids[n], rec = recs[n], state = states[n] or nil }
    end
  end
  return entries
end

-- Returns entries as columns.
function position.columns_of(entries)
  local ids, recs, states = { nil }, { nil }, { nil }
  for n = 1, #entries do
    ids[n], recs[n], states[n] = entries[n].id, entries[n].rec, entries[n].state or false
  end
  return ids, recs, states
end

-- Returns entries of messages in any state, without those that have no record.
function position.read(q, ids)
  if #ids == 0 then return {} end
  local recs, states = chunked.read(q.records, ids), chunked.read(q.states, ids)
  for n = 1, #ids do states[n] = states[n] and message_state.parse(states[n]) or false end
  return position.entries(ids, recs, states)
end

-- Returns the bytes of a message: those of its record and of its large body.
function position.size(q, entry)
  return entry.state and entry.state.size or position.record_size(q, entry.id, entry.rec)
end

-- Does so for a message that has no state.
function position.record_size(q, id, rec)
  if not record.has_large_body(rec) then return #rec end
  return #rec + redis.call("HSTRLEN", q.records, "^" .. id)
end

-- Special messages -----------------------------------------------------------------------------------------------------

-- Returns what is to be done for special messages (core/record) that come or go; nil if there is nothing to do. Most special
-- messages have only a correlation id, and no reader has searched the queue for one. The fields, each nil if it is empty:
--
--   members  the members in the index of identifiers, of messages that have only a correlation id
--   places   places of all other special messages, of which the features take care (features/features)
--   wants    by place, what these ask for (features.wants)
--
-- `held`: set of places of messages that are locked, and so not in the index; nil if there are none.
function position.special(q, ids, recs, held)
  local members, places, wants, exclusive = nil, nil, nil, q.locks_groups
  local byte, free, flag_at = string.byte, record.free, record.flag_at
  for n = 1, #ids do
    local flag = byte(recs[n], flag_at)
    if flag ~= record.plain then
      if free[flag] == "named" and not exclusive then
        if ids[n] <= q.indexed and not (held and held[n]) then
          members = members or { nil }
          members[#members + 1] = record.member(recs[n], ids[n])
        end
      elseif record.is_special(recs[n]) then
        features.load()
        places, wants = places or { nil }, wants or { nil }
        places[#places + 1], wants[n] = n, features.wants(recs[n])
      end
    end
  end
  if members or places then return { members = members, places = places, wants = wants } end
end

-- Is one of these messages special?
function position.any_special(recs)
  for n = 1, #recs do
    if record.is_special(recs[n]) then return true end
  end
  return false
end

-- Must the record of a message be read when its lock ends? If not, the state of the lock says all that is needed. `wanted`:
-- what the message asks for, as position.before_lock returns it; nil for nothing.
function position.end_reads_record(q, rec, wanted)
  return q.locks_groups or wanted and not wanted.plain_end or record.has_large_body(rec)
end

-- Adds columns of available messages to the index of identifiers (matching/index_build).
function position.add_to_index(q, ids, recs)
  local special = position.special(q, ids, recs)
  if not special then return end
  local members = special.members or { nil }
  if special.places then index.load() end
  for _, n in ipairs(special.places or {}) do index.append(members, q, ids[n], recs[n], special.wants[n].keys) end
  chunked.add(q.index, members)
end

-- Available ------------------------------------------------------------------------------------------------------------

-- Makes columns of messages available that are in no list (3.1.7.2.2 Message Position Available). One that has expired is deleted
-- instead (3.1.7.2.7), one whose delay is not over waits for its timer. Readers that wait are notified when the script ends: of
-- the messages in q.arrived all readers, of those in q.shown, whose group is busy, only readers that take nothing.
function position.arrive(q, ids, recs)
  if not q.has_special and position.any_special(recs) then q.has_special, q.changed = true, true end
  local special = position.special(q, ids, recs)
  if special then
    if special.members then chunked.add(q.index, special.members) end
    if special.places and features.arrive(q, ids, recs, special) then return end
  end
  store.make_available(q, ids)
end

-- Does so for entries.
function position.arrive_entries(q, entries)
  if #entries > 0 then position.arrive(q, position.columns_of(entries)) end
end

-- Takes columns of messages out of the index and tells their features, before core/transfer makes them available in another
-- queue.
function position.before_move(q, ids, recs)
  local special = position.special(q, ids, recs)
  if not special then return end
  if special.members then chunked.run("ZREM", q.index, special.members) end
  if special.places then features.delete(q, ids, recs, special, false) end
end

-- Locked ---------------------------------------------------------------------------------------------------------------

-- Locks columns of available messages. `lock`: a table {kind, owner, fence, deadline}, all texts, the first three as in states
-- (core/message_state), the deadline in ms. The delivery count in `states` rises here and not at the end, so that a message that
-- kills its reader is noticed.
function position.lock(q, ids, recs, states, lock)
  local wants = position.before_lock(q, ids, recs, lock.kind)
  store.withdraw(q, ids)
  context.mark_changed()
  if lock.kind == message_state.by_reader and position.need_no_states(q, recs, states, wants) then
    locks.load()
    if locks.add(q, ids, recs, lock) then return end
  end
  store.lock(q, ids, position.lock_states(q, ids, recs, states, wants, lock), lock.deadline)
  if string.find(lock.kind, message_state.visible, 1, true) then
    for n = 1, #ids do redis.call("ZADD", q.index, 0, message_state.visible_member(ids[n])) end
  end
end

-- Locks entries. `lock`: of position.lock.
function position.lock_entries(q, entries, lock)
  local ids, recs, states = position.columns_of(entries)
  position.lock(q, ids, recs, states, lock)
end

-- Takes messages that are about to be locked out of the index, and tells their features. `kind`: of their states. Returns by
-- place what the messages ask for (features.wants).
function position.before_lock(q, ids, recs, kind)
  local special = position.special(q, ids, recs)
  if not special then return position.nothing end
  if special.members then chunked.run("ZREM", q.index, special.members) end
  if not special.places then return position.nothing end
  features.lock(q, ids, recs, special, kind ~= message_state.moved and ARGV[1])
  return special.wants
end

-- Are these messages such that a lock need not give them states, and may be in the header of the queue (core/locks)?
function position.need_no_states(q, recs, states, wants)
  local byte, free, flag_at = string.byte, record.free, record.flag_at
  for n = 1, #recs do
    local is_free = free[byte(recs[n], flag_at)]
    if states[n] or not is_free and position.end_reads_record(q, recs[n], wants[n]) then return false end
  end
  return not q.locks_groups
end

-- Returns the new states of messages that get this lock (position.lock), as pairs of id and text. `wants`: of
-- position.before_lock. A message that a transaction is to move away is not delivered.
function position.lock_states(q, ids, recs, states, wants, lock)
  local kind, owner, fence = lock.kind, lock.owner, lock.fence
  local pairs, delivered = { nil, nil }, kind ~= message_state.moved
  local last_text, last_size, last_kind -- of messages that are locked together many have the same state
  for n = 1, #ids do
    local state, own_kind = states[n], kind
    if not position.end_reads_record(q, recs[n], wants[n]) then own_kind = kind .. message_state.plain end
    pairs[n * 2 - 1] = ids[n]
    if state then
      if delivered then state.deliveries = state.deliveries + 1 end
      state.kind, state.owner, state.fence = own_kind, owner, fence
      pairs[n * 2] = message_state.format(state)
    else
      local size = position.record_size(q, ids[n], recs[n])
      if size ~= last_size or own_kind ~= last_kind then
        last_text, last_size, last_kind = message_state.first(size, own_kind, owner, fence), size, own_kind
      end
      pairs[n * 2] = last_text
    end
  end
  return pairs
end

-- Deleted --------------------------------------------------------------------------------------------------------------

-- Why messages are deleted. The counter is a field of q.key; the last column says what a message may leave behind
-- (features/trace), besides the acknowledgements that its sender asked for.
--
--   reason            when                                                   counter             leaves
--   receive           its reader took it, or committed its lock                                  copy in the journal
--   receive_rejected  its reader rejected it, or the retry policy did        n_receive_rejected  dead letter, if asked
--   receive_timeout   it expired                                             n_receive_timeout   dead letter, if asked
--   queue_purged      an operator purged the queue or it, or ;trash did      n_queue_purged      dead letter, if asked
--   queue_deleted     its queue is deleted                                   n_queue_deleted     dead letter, if asked
--   poison            the retry policy makes it a dead letter                n_poison            dead letter
--   dropped           the retry policy drops it                              n_dropped
--   aborted           its transaction, which had sent it, was aborted
--   redriven          it was sent again from a dead letter or a journal                          only its trail (admin/redrive)

-- Are all queues at hand that copies and acknowledgements go to if these entries are deleted for this reason? If not,
-- context.missing names them. Comes before the first write of a script that calls position.delete with the same reason.
function position.may_leave(q, entries, reason)
  local traced = position.traced(q, entries, reason)
  if traced[1] then
    trace.load()
    trace.plan(q, traced, reason)
  end
  return not context.missing
end

-- Returns those of these entries that may leave something behind.
function position.traced(q, entries, reason)
  local traced = { nil }
  local all = reason == "poison" or reason == "receive" and q.options.journaling
  for n = 1, #entries do
    local rec = entries[n].rec
    local wanted, is_free = all, record.free[string.byte(rec, record.flag_at)]
    if not wanted and reason ~= "aborted" and not is_free and record.is_special(rec) then
      features.load()
      wanted = features.wants(rec).traced
    end
    if wanted then traced[#traced + 1] = entries[n] end
  end
  return traced
end

-- Deletes entries of messages in any state (3.1.7.2.1 Message Position Deleted), and writes what they leave behind. Who calls this
-- has called position.may_leave with the same reason before the script's first write.
function position.delete(q, entries, reason)
  if #entries == 0 then return end
  local ids, recs = position.columns_of(entries)

  -- What store.remove takes: available, locked and stateful are ids, fields those of q.records. held: set of the places of locked
  -- messages; visible: members of the index of those among them that peeks see.
  local available, locked, fields, stateful, visible, held, bytes = {}, {}, {}, {}, {}, {}, 0
  for n = 1, #entries do
    local id, state = ids[n], entries[n].state
    bytes = bytes + position.size(q, entries[n])
    held[n] = state and message_state.is_locked(state)
    local list = held[n] and locked or available
    list[#list + 1] = id
    fields[#fields + 1] = id
    if record.has_large_body(recs[n]) then fields[#fields + 1] = "^" .. id end
    if state then stateful[#stateful + 1] = id end
    if held[n] and message_state.is_visible(state) then visible[#visible + 1] = message_state.visible_member(id) end
  end

  -- Index and features first: they look at what is still stored.
  chunked.run("ZREM", q.index, visible)
  local special = position.special(q, ids, recs, held)
  if special then
    if special.members then chunked.run("ZREM", q.index, special.members) end
    if special.places then features.delete(q, ids, recs, special, reason, held, entries) end
  end

  -- Then what the messages leave behind, for which their bodies are read once more, and at last the messages themselves.
  store.count(q, -#entries, -bytes)
  local traced = position.traced(q, entries, reason)
  if traced[1] then
    trace.load()
    trace.leave(q, traced, reason)
  end
  store.remove(q, fields, available, locked, stateful)
  if reason == "aborted" then
    store.uncount_gone(q, #entries)
  elseif reason ~= "receive" then
    store.count_event(q, "n_" .. reason, #entries)
  end
  context.mark_changed()
end

-- Deletes locked messages, `bytes` in all, whose records need not be read (position.end_reads_record).
function position.delete_locked(q, ids, bytes)
  store.count(q, -#ids, -bytes)
  store.remove(q, ids, nil, ids, ids)
  context.mark_changed()
end
