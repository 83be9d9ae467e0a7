--- require "core/context"
--- require "core/chunked"
--- require "core/queue"
--- require "core/record"
--- require lazy "matching/index"
--- require lazy "features/special"
--- require lazy "features/trace"
--- require "core/store"
--- require "core/message_state"
-- The state machine of a MessagePosition (3.1.1.11). core/store writes what is decided here.
--
--   (sent)      -> Available | Locked(S) | delayed      Available -> Locked(L,R,M) | Deleted
--   Locked      -> Available | Deleted                  delayed   -> Available | Deleted
--
-- Available: member of q.a. Locked: member of q.l, with a state record; or with neither in a packed page of a claim
-- (claims/claim_pages), or in a packed lock until somebody opens the queue (core/packed_locks). PurgePending: Locked with a P
-- in its kind.
-- An entry is {lid, rec, st}: id, record text, state (nil for a message that never had one).
local position = {}

-- Records and states of these ids, false for what there is none of.
function position.texts(q, ids)
  if #ids == 0 then return {}, {} end
  return chunked.read(q.m, ids), chunked.read(q.s, ids)
end

-- The same as entries; those without a record are left out.
function position.entries(ids, recs, states)
  local entries, at = { nil }, 0
  for n = 1, #ids do
    local rec, text = recs[n], states[n]
    if rec then
      at = at + 1
      -- All four named, so that the table has room for what position.lock adds.
      entries[at] = { lid = ids[n], rec = rec, st = text and message_state.parse(text) or nil, seen = nil }
    end
  end
  return entries
end

function position.read(q, ids)
  return position.entries(ids, position.texts(q, ids))
end

-- Keys of the fields that scripts must look at; "" for plain messages, and where the record was not read because there
-- are none.
function position.keys(e)
  if not e.keys then e.keys = e.rec and record.flag(e.rec, 1) and record.keys(e.rec) or "" end
  return e.keys
end

-- Does the message ask for traces of its departure?
function position.traced(e)
  return string.find(position.keys(e), "[aAjQ]") ~= nil
end

function position.size(q, e)
  if e.st then return e.st.size end
  local size = #e.rec
  if record.flag(e.rec, 8) then size = size + redis.call("HSTRLEN", q.m, "^" .. e.lid) end
  return size
end

-- Message Position Available (3.1.7.2.2) for entries that are not in q.a: waiters are rung by waiters.ring later, for
-- those in q.arrived all, for those in q.shown, whose group is busy, only who takes nothing.
-- A message that expired meanwhile leaves instead (3.1.7.2.7); one whose delay is not over waits for it.
function position.arrive(q, entries)
  local add, gone, named, size, arrived, byte = {}, {}, {}, 0, q.arrived or {}, string.byte
  local exclusive, at, last, indexed, apart, shown = queue.has(q, "x"), #arrived, 0, q.indexed, false, q.shown
  for n = 1, #entries do
    local e = entries[n]
    local flag, fate = byte(e.rec, 14), nil
    local free = record.free[flag]
    if free == "named" and not exclusive then
      apart = true
      if e.lid <= indexed then
        named[last + 1] = "0"
        named[last + 2] = record.member(e.rec, e.lid)
        last = last + 2
      end
    elseif not free and record.flag(e.rec, 1) then
      fate = position.appear(q, e, named)
      last, apart = #named, true
    end
    if fate == "expired" then
      gone[#gone + 1] = e
    elseif fate ~= "delayed" then
      size = size + 1
      add[size] = e.lid
      if fate ~= "busy" then
        at = at + 1
        arrived[at] = e.lid
      else
        shown = shown or {}
        shown[#shown + 1] = e.lid
      end
    end
  end
  q.arrived, q.shown = arrived, shown
  -- Whoever put it there, a sender or the broker: claims need not look at messages of a queue that none marks.
  if apart and not q.has_special then q.has_special, q.changed = true, true end
  if last > 0 then chunked.scores(q.i, named) end
  store.make_available(q, add)
  if #gone > 0 then position.delete(q, gone, "receive_timeout") end
end

-- The ids that became available in this call, these among them.
function position.arrived(q, ids)
  if not q.arrived then return ids end
  for n = 1, #ids do q.arrived[#q.arrived + 1] = ids[n] end
  return q.arrived
end

-- A message that is set apart becomes available: what special.arrive answers.
function position.appear(q, e, named)
  if position.named(q, e) then
    index.load()
    index.add(q, e.lid, e.rec, e.keys, named)
  else
    special.load()
    return special.arrive(q, e.lid, e.rec, context.now, e.keys, named)
  end
end

-- Is all that sets a message apart its identifiers? Then the index is all that comes and goes with it.
function position.named(q, e)
  return not string.find(position.keys(e), "[ajeAkDQu]") and not string.find(q.flags, "x", 1, true)
end

-- A message that is set apart stops being available. `later` and `held` as special.leave takes them.
function position.leave(q, e, locked, later, held)
  if not position.named(q, e) then
    special.load()
    special.leave(q, e.lid, e.rec, locked, e.keys, later, held)
  elseif not held then
    index.load()
    index.drop(q, e.lid, e.rec, e.keys, later)
  end
end

-- Decide: may these entries leave for this reason? Else context.missing names the queues their traces go to. Plain
-- messages of plain queues leave none.
function position.may_leave(q, entries, reason)
  local traced = reason == "receive" and queue.has(q, "j")
  for n = 1, #entries do
    local e = entries[n]
    if e.keys ~= "" and (not e.rec or string.byte(e.rec, 14) ~= 48) then traced = traced or position.traced(e) end
  end
  if traced then
    trace.load()
    trace.plan(q, entries, reason)
  end
  return not context.missing
end

-- Message Position Deleted (3.1.7.2.1): out of every structure. `reason` names why; what that leaves behind is written
-- first (features/trace), and was planned with position.may_leave.
function position.delete(q, entries, reason)
  local free, held, fields, states, named, bytes = {}, {}, {}, {}, {}, 0
  local traced = reason == "poison" or (reason == "receive" and queue.has(q, "j"))
  for n = 1, #entries do
    local e = entries[n]
    bytes = bytes + position.size(q, e)
    local from = e.st and e.st.kind ~= "-" and held or free
    from[#from + 1] = e.lid
    fields[#fields + 1] = e.lid
    if e.rec and string.byte(e.rec, 14) ~= 48 then
      if record.flag(e.rec, 8) then fields[#fields + 1] = "^" .. e.lid end
      if record.flag(e.rec, 1) then
        position.leave(q, e, false, named, from == held)
        if string.find(e.keys, "k", 1, true) then
          special.load()
          special.gone(q, e.rec, reason)
        end
        traced = traced or (reason ~= "aborted" and position.traced(e))
      end
    end
    if e.st then states[#states + 1] = e.lid end
  end
  if #entries == 0 then return end
  store.count(q, -#entries, -bytes)
  chunked.run("ZREM", q.i, named)
  if traced then
    trace.load()
    trace.leave(q, entries, reason)
  end
  store.remove(q, free, held, states, fields)
  if reason == "aborted" then
    store.uncount_gone(q, #entries)
  elseif reason ~= "receive" then
    redis.call("HINCRBY", q.q, "n_" .. reason, #entries)
  end
  context.mark_changed()
end

-- The same for locks that settle.sort found to need nothing more: their ids and their bytes.
function position.drop(q, ids, bytes)
  store.count(q, -#ids, -bytes)
  store.remove(q, {}, ids, ids, ids)
  context.mark_changed()
end

-- Available -> Locked. The delivery count rises here, so that a message that kills its reader is seen to do so.
function position.lock(q, entries, kind, owner, fence, deadline)
  local ids, states, named = {}, {}, {}
  local visible = string.find(kind, "V", 1, true)
  local turns = queue.has(q, "x")
  local tail = " " .. owner .. " " .. fence
  for n = 1, #entries do
    local e = entries[n]
    local plain = position.begin(q, e, kind, turns)
    if record.flag(e.rec, 1) then position.leave(q, e, true, named, false) end
    ids[n] = e.lid
    states[n * 2 - 1] = e.lid
    states[n * 2] = e.seen .. " " .. e.st.size .. " " .. kind .. (plain and "N" or "") .. tail
      .. message_state.uncounted(e.st)
    if visible then redis.call("ZADD", q.i, 0, "v" .. e.lid) end
  end
  position.hold(q, ids, states, named, deadline)
end

-- The same for messages that seek.plain found to be plain, without a table for each. Most have one of a few sizes.
function position.grant(q, ids, recs, kind, owner, fence, deadline)
  local states, named, last, made, byte, free = { nil, nil }, { nil }, 0, {}, string.byte, record.free
  local indexed = q.indexed
  local tail = " " .. kind .. "N " .. owner .. " " .. fence
  for n = 1, #ids do
    local rec, lid = recs[n], ids[n]
    local size = #rec
    local text = made[size]
    if not text then
      text = "1 0 0 0 " .. string.format("%d", size) .. tail
      made[size] = text
    end
    states[n * 2 - 1], states[n * 2] = lid, text
    if free[byte(rec, 14)] == "named" and lid <= indexed then
      last = last + 1
      named[last] = record.member(rec, lid)
    end
  end
  position.hold(q, ids, states, named, deadline)
end

-- What both write: the states of these ids, their elements in the index go.
function position.hold(q, ids, states, named, deadline)
  chunked.run("ZREM", q.i, named)
  store.withdraw(q, ids)
  store.lock(q, ids, states, deadline)
  context.mark_changed()
end

-- Messages that ask for no more than to be found by their identifiers, and are in no list, become available. `hooked`:
-- one of them has identifiers.
function position.enter(q, ids, recs, hooked)
  q.arrived = position.arrived(q, ids)
  if hooked then position.name(q, ids, recs) end
  store.make_available(q, ids)
end

-- Their identifiers into the index. The large bodies are there already: of a segment their size counts.
function position.name(q, ids, recs)
  local named, last, byte, free = { nil, nil }, 0, string.byte, record.free
  for n = 1, #ids do
    local rec, lid = recs[n], ids[n]
    local kind = free[byte(rec, 14)]
    if kind == "named" then
      if lid <= q.indexed then
        named[last + 1], named[last + 2] = "0", record.member(rec, lid)
        last = last + 2
      end
    elseif not kind and record.flag(rec, 1) then
      index.load()
      index.add(q, lid, rec, nil, named)
      last = #named
    end
  end
  if last > 0 then chunked.scores(q.i, named) end
end

-- One more delivery of an entry in its state. Does its end need no look at the record?
function position.begin(q, e, kind, turns)
  local st = e.st or { deliveries = 0, aborts = 0, moves = 0, moved = 0, size = position.size(q, e), uncounted = 0 }
  if kind ~= "M" then st.deliveries = st.deliveries + 1 end
  e.seen = e.st and message_state.counts(st) or kind == "M" and "0 0 0 0" or "1 0 0 0"
  e.st = st
  return not turns and not record.flag(e.rec, 8) and not string.find(position.keys(e), "[aAjQkK~]")
end

-- Locked -> Deleted: a commit.
function position.finish(q, entries, reason)
  local marks = {}
  for n = 1, #entries do
    local e = entries[n]
    if string.find(e.st.kind, "V", 1, true) then marks[#marks + 1] = "v" .. e.lid end
  end
  chunked.run("ZREM", q.i, marks)
  position.delete(q, entries, reason)
end
