--- require "core/chunked"
--- require "core/context"
--- require lazy "core/message_state"
--- require lazy "core/record"
--- require "core/store"
--- require lazy "core/locks"
--- require lazy "features/features"
--- require lazy "features/identifiers"
--- used by 37 files: 9 scripts, 6 in admin, 2 in claims, 8 in core, 8 in features, 2 in matching, transactions/commit,
---   waiting/handoff
-- The state machine of a message (MessagePosition, MS-MQDMPR 3.1.1.11): what a change of state means for the index of
-- identifiers and for the features that a message asks for. core/store writes it.
--
--   state      stored as                                             changes to    by
--   sent       record only, while a script works on it               available     arrive
--                                                                    locked        enqueue.put, in a transaction
--                                                                    delayed       arrive, if its delay is not over
--   available  member of q.available                                 locked        lock
--   locked     member of q.locked, with a state (core/message_state); available     release.unlock, then arrive
--              or in the header of its queue (core/locks);
--              or in a packed page of a claim (claims/claim_pages)
--   delayed    timer "d"id (features/delivery_delay)                 available     arrive, by the timer
--   any                                                              deleted       removal.delete (core/removal)
--   any                                                              available in another queue    transfer.move (core/transfer)
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
--                large    its large body, of a message that is not stored (features/refusal)
--                dead_letter_queue  encoded name of the queue for its dead letter (features/retry_policy)
--                event    what its trail says, if that is not what usually happens at this place (features/trail)
--                holder   slot or transaction that had locked it (core/release, for features/trail)
--
-- Four fields of q (core/queue) say what there is to do: q.has_special, a message has come that is special; q.has_states, an
-- available message may have a state; q.indexed, up to which id messages are in the index of identifiers; and q.locks_groups, one
-- message of each group is locked at a time, so that the features have to see every message.
--
-- Change together with: a new place of a message is also known to `positions` in mqredis/operations/doctor/checks/messages.py, to
-- the rows M of admin/audit, and to admin/sweep. What the index has of a message when it comes must be taken out when it goes: both
-- go by position.special (tests/matching/test_index_marks.py). removal.delete_locked takes a short cut for messages that need none
-- of this (position.end_reads_record). tests/conformance/tables/states.py has each operation in each state.
--
-- Of the functions here only position.lock calls context.mark_changed; who calls position.arrive or position.before_move does so
-- itself.
--
-- nothing: what plain messages ask for, by place; it stays empty
local position = { nothing = {} }

-- Columns and entries ----------------------------------------------------------------------------------------------------

-- Returns the columns recs and states of available messages; false where a message has none.
function position.columns(q, ids)
  local recs, states = chunked.read(q.records, ids), { nil }
  if q.has_states then return recs, position.states(q, ids) end
  for n = 1, #ids do states[n] = false end
  return recs, states
end

-- Returns the column states of messages, one at least, in any state; false where a message has none.
function position.states(q, ids)
  local states = chunked.read(q.states, ids)
  for n = 1, #ids do states[n] = states[n] and message_state.parse(states[n]) or false end
  return states
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

-- Returns entries of messages in any state, without those that have no record. A message whose lock is in the header of its queue
-- has no state here: a script that needs it opens the queue with queue.open, which expands these locks.
function position.read(q, ids)
  if #ids == 0 then return {} end
  return position.entries(ids, chunked.read(q.records, ids), position.states(q, ids))
end

-- Returns those of them that are available.
function position.read_available(q, ids)
  local entries, found = position.read(q, ids), { nil }
  for n = 1, #entries do
    if redis.call("ZSCORE", q.available, entries[n].id) then found[#found + 1] = entries[n] end
  end
  return found
end

-- Returns the bytes of a message: those of its record and of its large body.
function position.size(q, entry)
  return entry.state and entry.state.size or position.record_size(q, entry.id, entry.rec)
end

-- Returns the bytes of a message that has no state.
function position.record_size(q, id, rec)
  if not record.has_large_body(rec) then return #rec end
  return #rec + redis.call("HSTRLEN", q.records, "^" .. id)
end

-- Special messages -----------------------------------------------------------------------------------------------------

-- Returns what is to be done for special messages (core/record) that come or go. Both results are nil if there is nothing to do: in
-- most queues no message is special, or all have only a correlation id for which no reader has searched.
--
--   members  a list of members of the index of identifiers, of messages that have only a correlation id (flag named)
--   batch    a batch of features with all others
--
-- `held`: set of places of messages that are locked, and so not in the index; nil if there are none. `known`: the batch, if the
-- caller has it already.
function position.special(q, ids, recs, held, known)
  if not q.has_special then return end
  local members, batch = nil, known
  local byte, free, flag_at = string.byte, record.free, record.flag_at
  for n = 1, #ids do
    local flag = byte(recs[n], flag_at)
    if flag ~= record.plain then
      if free[flag] == "named" and not q.locks_groups then
        if ids[n] <= q.indexed and not (held and held[n]) then
          members = members or { nil }
          members[#members + 1] = record.member(recs[n], ids[n])
        end
      elseif not known and record.is_special(recs[n]) then
        batch = batch or features.batch(ids, recs)
        features.note(batch, n)
      end
    end
  end
  return members, batch
end

-- Must the record of a message be read when its lock ends? If not, the state of the lock says all that is needed. `wanted`:
-- what the message asks for, as position.before_lock returns it; nil for nothing.
function position.end_reads_record(q, rec, wanted)
  return q.locks_groups or wanted and not wanted.plain_end or record.has_large_body(rec)
end

-- Adds columns of available messages to the index of identifiers. For matching/index_build, which brings the index up to date.
function position.add_to_index(q, ids, recs)
  local members, batch = position.special(q, ids, recs)
  if members then chunked.add(q.index, members) end
  if batch then identifiers.arrive(q, batch, batch.places) end
end

-- Available ------------------------------------------------------------------------------------------------------------

-- Makes columns of messages available that are in no list (3.1.7.2.2 Message Position Available). One that has expired is deleted
-- instead (3.1.7.2.7), one whose delay is not over waits for its timer. Readers that wait are notified when the script ends
-- (notify.serve): of most messages all readers, of those whose group is busy only readers that take nothing. `known`: as of
-- position.special.
function position.arrive(q, ids, recs, known)
  if not q.has_special then
    for n = 1, #recs do
      if record.is_special(recs[n]) then q.has_special, q.changed = true, true end
    end
  end
  local members, batch = position.special(q, ids, recs, nil, known)
  if members then chunked.add(q.index, members) end
  if batch and features.arrive(q, batch) then return end
  store.make_available(q, ids)
end

-- Makes entries available.
function position.arrive_entries(q, entries)
  if #entries == 0 then return end
  local ids, recs = position.columns_of(entries)
  position.arrive(q, ids, recs)
end

-- Takes columns of messages out of the index and tells their features, before core/transfer makes them available in another
-- queue, or admin/rewrite in the same one with other records or ids.
function position.before_move(q, ids, recs)
  local members, batch = position.special(q, ids, recs)
  if members then chunked.run("ZREM", q.index, members) end
  if batch then features.delete(q, batch, false) end
end

-- Locked ---------------------------------------------------------------------------------------------------------------

-- Returns the lock of the reader with this slot. `kind`: message_state.by_reader, perhaps with the flag visible behind it; `lease`
-- in ms. Its fence is the number of this call, so context.mark_changed comes first.
function position.reader_lock(kind, slot, lease)
  return { kind = kind, owner = slot, fence = context.history_text,
    deadline = string.format("%d", context.now + lease) }
end

-- Locks columns of available messages. `lock`: of position.reader_lock or tx.lock, a table {kind, owner, fence, deadline}, all
-- texts, the first three as in states (core/message_state), the deadline in ms. The delivery count in `states` rises here and not
-- at the end, so that a message that kills its reader is noticed. The lock goes into the header of the queue if core/locks has room
-- and no message needs a state, else into q.locked and q.states.
function position.lock(q, ids, recs, states, lock)
  local wants = position.before_lock(q, ids, recs, lock.kind)
  store.withdraw(q, ids)
  context.mark_changed()
  if lock.kind == message_state.by_reader and position.need_no_states(q, recs, states, wants) then
    if locks.add(q, ids, recs, lock) then return end
  end
  store.lock(q, ids, position.lock_states(q, ids, recs, states, wants, lock), lock.deadline)
  if string.find(lock.kind, message_state.visible, 1, true) then -- until core/release, core/removal or a purge
    for n = 1, #ids do redis.call("ZADD", q.index, 0, message_state.visible_member(ids[n])) end
  end
end

-- Locks entries of available messages, or of those that the caller has locked and now takes over (lookup.lua). `lock`: of
-- position.lock.
function position.lock_entries(q, entries, lock)
  local ids, recs, states = position.columns_of(entries)
  position.lock(q, ids, recs, states, lock)
end

-- Takes messages that are about to be locked out of the index, and tells their features. `kind`: of their states. Returns by
-- place what the messages ask for (features.wants).
function position.before_lock(q, ids, recs, kind)
  local members, batch = position.special(q, ids, recs)
  if members then chunked.run("ZREM", q.index, members) end
  if not batch then return position.nothing end
  features.lock(q, batch, kind ~= message_state.moved and ARGV[1])
  return batch.wants
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
  local id_states, is_delivery = { nil, nil }, kind ~= message_state.moved
  local last_text, last_size, last_kind -- of messages that are locked together many have the same state
  for n = 1, #ids do
    local state, own_kind = states[n], kind
    if not position.end_reads_record(q, recs[n], wants[n]) then own_kind = kind .. message_state.plain end
    id_states[n * 2 - 1] = ids[n]
    if state then
      if is_delivery then state.deliveries = state.deliveries + 1 end
      state.kind, state.owner, state.fence = own_kind, owner, fence
      id_states[n * 2] = message_state.format(state)
    else
      local size = position.record_size(q, ids[n], recs[n])
      if size ~= last_size or own_kind ~= last_kind then
        last_text, last_size, last_kind = message_state.first(size, own_kind, owner, fence), size, own_kind
      end
      id_states[n * 2] = last_text
    end
  end
  return id_states
end
