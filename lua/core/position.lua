--- require "core/chunked"
--- require "core/context"
--- require "core/message_state"
--- require "core/record"
--- require "core/store"
--- require lazy "core/locks"
--- require lazy "features/features"
--- require lazy "features/trace"
--- require lazy "matching/index"
--- used by admin/operator, admin/redrive, admin/rewrite, admin/scheduled, admin/sweep, bulk, claim_release and others
-- Changes the state of messages: the state machine of a MessagePosition (MS-MQDMPR 3.1.1.11). It decides what a change of
-- state means for the index, for the features that a message asks for and for the counters; core/store writes it.
--
--   sent       -> available | locked by its transaction | delayed
--   available  -> locked | deleted
--   locked     -> available | deleted
--   delayed    -> available | deleted
--
-- Available: a member of q.available. Locked: a member of q.locked with a state (core/message_state); or in the header of the
-- queue (core/locks); or in a packed page of a claim (claims/claim_pages). Delayed: a timer "d"id (features/delivery_delay).
--
-- Messages are given as columns: ids[n], recs[n] (records) and states[n] (tables of core/message_state; false for a message
-- that has none) belong to one message. An entry is one message as a table {lid, rec, st} of the same three.
--
-- Before a message is deleted, position.may_leave must have been asked with the same reason: then all queues that its copies
-- and acknowledgements go to are at hand.
local position = {}

-- Returns the records and states of available messages; false where a message has none.
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
      -- All named, so that the table has room for what is added later.
      entries[at] = { lid = ids[n], rec = recs[n], st = states[n] or nil, seen = nil }
    end
  end
  return entries
end

-- Returns entries as columns.
function position.columns_of(entries)
  local ids, recs, states = { nil }, { nil }, { nil }
  for n = 1, #entries do
    ids[n], recs[n], states[n] = entries[n].lid, entries[n].rec, entries[n].st or false
  end
  return ids, recs, states
end

-- Returns entries of messages in any state.
function position.read(q, ids)
  if #ids == 0 then return {} end
  local recs, states = chunked.read(q.records, ids), chunked.read(q.states, ids)
  for n = 1, #ids do states[n] = states[n] and message_state.parse(states[n]) or false end
  return position.entries(ids, recs, states)
end

-- Returns the keys of the fields of a special message (record.keys); "" for any other, and for an entry without a record.
function position.keys(e)
  if not e.keys then e.keys = e.rec and record.is_special(e.rec) and record.keys(e.rec) or "" end
  return e.keys
end

-- Does the message ask for copies or acknowledgements when it goes?
function position.traced(e)
  return string.find(position.keys(e), "[aAjQ]") ~= nil
end

-- Returns the bytes of a message: those of its record and of its large body.
function position.size(q, e)
  return e.st and e.st.size or position.record_size(q, e.lid, e.rec)
end

function position.record_size(q, lid, rec)
  local size = #rec
  if record.has_large_body(rec) then size = size + redis.call("HSTRLEN", q.records, "^" .. lid) end
  return size
end

-- Sorts out the messages that are not plain. Returns the members in the index of those that are named, the places of those
-- that are special and not named (each nil if there are none), and whether there is any. Messages in `held`, a set of places,
-- are not in the index.
function position.sort(q, ids, recs, held)
  local named, special, apart, exclusive = nil, nil, false, q.locks_groups
  local byte, free = string.byte, record.free
  for n = 1, #ids do
    local flag = byte(recs[n], 14)
    if flag ~= record.plain then
      local kind = free[flag]
      if kind == "named" and not exclusive then
        apart = true
        if ids[n] <= q.indexed and not (held and held[n]) then
          named = named or { nil }
          named[#named + 1] = record.member(recs[n], ids[n])
        end
      elseif kind ~= true and record.is_special(recs[n]) then
        special, apart = special or { nil }, true
        special[#special + 1] = n
      end
    end
  end
  return named, special, apart
end

-- Makes messages that are in no list available (3.1.7.2.2 Message Position Available). One that has expired is deleted
-- instead (3.1.7.2.7), one whose delay is not over waits for its timer. Readers that wait are notified when the script ends: of
-- the messages in q.arrived all readers, of those in q.shown, whose group is busy, only readers that take nothing.
function position.arrive(q, ids, recs)
  local named, special, apart = position.sort(q, ids, recs)
  if apart and not q.has_special then q.has_special, q.changed = true, true end
  if named then chunked.scores(q.index, position.scored(named)) end
  if special then
    features.load()
    if features.arrive(q, ids, recs, special) then return end
  end
  store.make_available(q, ids)
end

-- Returns score, member, ... for members of the index.
function position.scored(members)
  local pairs = { nil, nil }
  for n = 1, #members do pairs[n * 2 - 1], pairs[n * 2] = "0", members[n] end
  return pairs
end

function position.arrive_entries(q, entries)
  if #entries > 0 then position.arrive(q, position.columns_of(entries)) end
end

-- Takes messages out of the index and lets their features know, before core/transfer makes them available elsewhere.
function position.take_apart(q, ids, recs)
  local named, special = position.sort(q, ids, recs)
  if named then chunked.run("ZREM", q.index, named) end
  if special then
    features.load()
    features.delete(q, ids, recs, special, false)
  end
end

-- Puts the identifiers of available messages into the index (matching/index_build).
function position.name(q, ids, recs)
  local elements, byte, free = { nil, nil }, string.byte, record.free
  for n = 1, #ids do
    local kind = free[byte(recs[n], 14)]
    if kind == "named" then
      if ids[n] <= q.indexed then
        elements[#elements + 1] = "0"
        elements[#elements + 1] = record.member(recs[n], ids[n])
      end
    elseif not kind and record.is_special(recs[n]) then
      index.load()
      index.add(q, ids[n], recs[n], nil, elements)
    end
  end
  if elements[1] then chunked.scores(q.index, elements) end
end

-- Are all queues at hand that copies and acknowledgements go to if these entries leave for this reason? If not,
-- context.missing names them.
function position.may_leave(q, entries, reason)
  local traced = reason == "receive" and q.options.journaling
  for n = 1, #entries do
    local e = entries[n]
    local plain = e.keys == "" or e.rec and string.byte(e.rec, 14) == record.plain
    traced = traced or not plain and position.traced(e)
  end
  if traced then
    trace.load()
    trace.plan(q, entries, reason)
  end
  return not context.missing
end

-- Deletes messages in any state (3.1.7.2.1 Message Position Deleted). `reason` says why, and decides which copies and
-- acknowledgements are made first (features/trace).
function position.delete(q, entries, reason)
  if #entries == 0 then return end
  local ids, recs = position.columns_of(entries)
  local available, locked, fields, stateful, held, bytes = {}, {}, {}, {}, {}, 0
  local traced = reason == "poison" or (reason == "receive" and q.options.journaling)
  for n = 1, #entries do
    local e = entries[n]
    bytes = bytes + position.size(q, e)
    held[n] = e.st and message_state.is_locked(e.st)
    local from = held[n] and locked or available
    from[#from + 1] = e.lid
    fields[#fields + 1] = e.lid
    if record.has_large_body(e.rec) then fields[#fields + 1] = "^" .. e.lid end
    if e.st then stateful[#stateful + 1] = e.lid end
    traced = traced or (reason ~= "aborted" and position.traced(e))
  end
  local named, special = position.sort(q, ids, recs, held)
  if named then chunked.run("ZREM", q.index, named) end
  if special then
    features.load()
    features.delete(q, ids, recs, special, reason, held, entries)
  end
  store.count(q, -#entries, -bytes)
  if traced then
    trace.load()
    trace.leave(q, entries, reason)
  end
  store.remove(q, fields, available, locked, stateful)
  if reason == "aborted" then
    store.uncount_gone(q, #entries)
  elseif reason ~= "receive" then
    store.count_event(q, "n_" .. reason, #entries)
  end
  context.mark_changed()
end

-- Deletes locked messages whose end needs no look at their records, `bytes` in all. `stateless`: their lock was in the queue's
-- header (core/locks), so they have no states.
function position.drop(q, ids, bytes, stateless)
  store.count(q, -#ids, -bytes)
  if stateless then store.remove(q, ids) else store.remove(q, ids, nil, ids, ids) end
  context.mark_changed()
end

-- Takes messages that are about to be locked out of the index and lets their features know. `kind`, `owner`: of their states.
-- Returns the set of places whose messages need a look at their records when they end; nil if none does.
function position.depart(q, ids, recs, kind, owner)
  local named, special = position.sort(q, ids, recs)
  local asking, byte, exclusive = nil, string.byte, q.locks_groups
  if named then chunked.run("ZREM", q.index, named) end
  if special then
    features.load()
    local letter = string.sub(kind, 1, 1)
    local wants = features.lock(q, ids, recs, special, letter == message_state.by_reader and owner
      or letter ~= message_state.moved and ARGV[1])
    for k = 1, #special do
      if not wants[special[k]].plain_end then
        asking = asking or {}
        asking[special[k]] = true
      end
    end
  end
  for n = 1, #ids do
    local flag = byte(recs[n], 14)
    if exclusive or flag >= 56 and not record.free[flag] and record.has_large_body(recs[n]) then
      asking = asking or {}
      asking[n] = true
    end
  end
  return asking
end

-- Locks available messages. Their delivery count rises here and not at the end, so that a message that kills its reader is
-- noticed. Returns what readers are shown of the states (message_state.shown): one text for all, or a list. Changes the tables
-- in `states`.
function position.lock(q, ids, recs, states, kind, owner, fence, deadline)
  local asking = position.depart(q, ids, recs, kind, owner)
  local bytes, each, old = 0, #recs[1], false
  for n = 1, #ids do
    local size = #recs[n]
    if size ~= each then each = 0 end
    bytes = bytes + size
    old = old or states[n]
  end
  if string.find(kind, message_state.visible, 1, true) then
    for n = 1, #ids do redis.call("ZADD", q.index, 0, "v" .. ids[n]) end
  end
  store.withdraw(q, ids)
  context.mark_changed()
  if kind == message_state.by_reader and not asking and not old then
    locks.load()
    if locks.take(q, ids, bytes, each, owner, fence, deadline) then return "1 0 0 0" end
  end
  local texts, told = position.lock_states(q, ids, recs, states, kind, owner, fence, asking)
  store.lock(q, ids, texts, deadline)
  return told
end

-- Returns the states of messages that get locked, as pairs, and what readers are shown of them, as a list.
function position.lock_states(q, ids, recs, states, kind, owner, fence, asking)
  local pairs, told, made = { nil, nil }, { nil }, {}
  local delivered = kind ~= message_state.moved
  local first = delivered and "1 0 0 0" or "0 0 0 0"
  for n = 1, #ids do
    local st, rec, plain = states[n], recs[n], not (asking and asking[n])
    local kept = plain and kind .. message_state.plain or kind
    pairs[n * 2 - 1] = ids[n]
    if st then
      if delivered then st.deliveries = st.deliveries + 1 end
      st.kind, st.owner, st.fence = kept, owner, fence
      told[n], pairs[n * 2] = message_state.shown(st), message_state.format(st)
    else
      -- Of messages that are locked together many have the same size.
      local size = position.record_size(q, ids[n], rec)
      local key = plain and size or -size
      made[key] = made[key] or message_state.first(size, kept, owner, fence)
      told[n], pairs[n * 2] = first, made[key]
    end
  end
  return pairs, told
end

-- Locks entries, and sets the field `seen` of each to what its reader is shown of the state.
function position.lock_entries(q, entries, kind, owner, fence, deadline)
  local ids, recs, states = position.columns_of(entries)
  local told = position.lock(q, ids, recs, states, kind, owner, fence, deadline)
  for n = 1, #entries do entries[n].seen = type(told) == "table" and told[n] or told end
end

-- Deletes locked messages. Peeks do not see them any more.
function position.finish(q, entries, reason)
  local marks = {}
  for n = 1, #entries do
    if message_state.is_visible(entries[n].st) then marks[#marks + 1] = "v" .. entries[n].lid end
  end
  chunked.run("ZREM", q.index, marks)
  position.delete(q, entries, reason)
end
