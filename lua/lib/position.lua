--- require "lib/frame"
--- require "lib/queue"
--- require "lib/record"
--- require lazy "lib/index"
--- require lazy "lib/special"
--- require lazy "lib/trace"
--- require "lib/quota"
-- The state machine of a MessagePosition (3.1.1.11), and the only writer of states.
--
--   (sent)      -> Available | Locked(S) | delayed      Available -> Locked(L,R,M) | Deleted
--   Locked      -> Available | Deleted                  delayed   -> Available | Deleted
--
-- Available: member of q.a. Locked: member of q.l, with a state record. PurgePending: Locked with a P in its kind.
-- An entry is {lid, rec, st}: id, record text, state (nil for a message that never had one).
local position = {}

-- Entries of these ids; those without a record are left out.
function position.read(q, ids)
  local entries = {}
  if #ids == 0 then return entries end
  local recs = redis.call("HMGET", q.m, unpack(ids))
  local states = redis.call("HMGET", q.s, unpack(ids))
  for n = 1, #ids do
    if recs[n] then
      entries[#entries + 1] = { lid = ids[n], rec = recs[n], st = states[n] and record.state(states[n]) or nil,
        keys = nil, seen = nil }  -- named so that the table has room for them
    end
  end
  return entries
end

-- Keys of the fields that scripts must look at; "" for plain messages, and where the record was not read because there
-- are none.
function position.keys(e)
  if not e.keys then e.keys = e.rec and record.flag(e.rec, 1) and record.keys(e.rec) or "" end
  return e.keys
end

-- Does the message ask for traces of its departure?
function position.traced(e)
  return string.find(position.keys(e), "[aAjQT]") ~= nil
end

function position.size(q, e)
  if e.st then return e.st.size end
  local size = #e.rec
  if record.flag(e.rec, 8) then size = size + redis.call("HSTRLEN", q.m, "^" .. e.lid) end
  return size
end

-- Message Position Available (3.1.7.2.2) for entries that are not in q.a: waiters are rung by wake.ring later.
-- A message that expired meanwhile leaves instead (3.1.7.2.7); one whose delay is not over waits for it.
function position.arrive(q, entries)
  local add, gone, named = {}, {}, {}
  q.arrived = q.arrived or {}
  for n = 1, #entries do
    local e = entries[n]
    local fate
    if string.byte(e.rec, 14) ~= 48 and record.flag(e.rec, 1) then -- 48: nothing is set, as in most messages
      if position.named(q, e) then
        index.load()
        index.add(q, e.lid, e.rec, e.keys, named)
      else
        special.load()
        fate = special.arrive(q, e.lid, e.rec, frame.now, e.keys, named)
      end
    end
    if fate == "expired" then
      gone[#gone + 1] = e
    elseif fate ~= "delayed" then
      add[#add + 1] = "0"
      add[#add + 1] = e.lid
      if fate ~= "busy" then q.arrived[#q.arrived + 1] = e.lid end
    end
  end
  if #named > 0 then redis.call("ZADD", q.i, unpack(named)) end
  if #add > 0 then redis.call("ZADD", q.a, unpack(add)) end
  if #gone > 0 then position.delete(q, gone, "receive_timeout") end
end

-- Is all that sets a message apart its identifiers? Then the index is all that comes and goes with it.
function position.named(q, e)
  return not string.find(position.keys(e), "[ajeAkDQuT]") and not string.find(q.flags, "x", 1, true)
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

-- Decide: may these entries leave for this reason? Else frame.missing names the queues their traces go to. Plain
-- messages of plain queues leave none.
function position.may_leave(q, entries, reason)
  local traced = reason == "receive" and string.find(q.flags, "j", 1, true)
  for n = 1, #entries do
    local e = entries[n]
    if e.keys ~= "" and (not e.rec or string.byte(e.rec, 14) ~= 48) then traced = traced or position.traced(e) end
  end
  if traced then
    trace.load()
    trace.plan(q, entries, reason)
  end
  return not frame.missing
end

-- Message Position Deleted (3.1.7.2.1): out of every structure. `reason` names why; what that leaves behind is written
-- first (lib/trace), and was planned with position.may_leave.
function position.delete(q, entries, reason)
  local free, held, fields, states, named, bytes = {}, {}, {}, {}, {}, 0
  local traced = reason == "poison" or (reason == "receive" and string.find(q.flags, "j", 1, true))
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
  quota.add(q, -#entries, -bytes)
  if #named > 0 then redis.call("ZREM", q.i, unpack(named)) end
  if traced then
    trace.load()
    trace.leave(q, entries, reason)
  end
  if reason == "aborted" then
    q.gone = q.gone - #entries
  elseif reason ~= "receive" then
    redis.call("HINCRBY", q.q, "n_" .. reason, #entries)
  end
  if #free > 0 then redis.call("ZREM", q.a, unpack(free)) end
  if #held > 0 then redis.call("ZREM", q.l, unpack(held)) end
  if #states > 0 then redis.call("HDEL", q.s, unpack(states)) end
  redis.call("HDEL", q.m, unpack(fields))
  frame.touch()
end

-- Available -> Locked. The delivery count rises here, so that a message that kills its reader is seen to do so.
function position.lock(q, entries, kind, owner, fence, deadline)
  local ids, scores, states, named = {}, {}, {}, {}
  local visible = string.find(kind, "V", 1, true)
  local turns = string.find(q.flags, "x", 1, true)
  local tail, simple = " " .. kind .. " " .. owner .. " " .. fence, " " .. kind .. "N " .. owner .. " " .. fence
  for n = 1, #entries do
    local e = entries[n]
    local st = e.st or { deliveries = 0, aborts = 0, moves = 0, moved = 0, size = position.size(q, e),
      kind = nil, owner = nil, fence = nil }
    if kind ~= "M" then st.deliveries = st.deliveries + 1 end
    local bare = string.byte(e.rec, 14) == 48
    local plain = not turns
      and (bare or not record.flag(e.rec, 8) and not string.find(position.keys(e), "[aAjQTkK~]"))
    st.kind, st.owner, st.fence = plain and kind .. "N" or kind, owner, fence
    e.seen = e.st and record.counts(st) or kind == "M" and "0 0 0 0" or "1 0 0 0"
    e.st = st
    ids[n] = e.lid
    scores[n * 2 - 1] = deadline
    scores[n * 2] = e.lid
    states[n * 2 - 1] = e.lid
    states[n * 2] = e.seen .. " " .. st.size .. (plain and simple or tail)
    if not bare and record.flag(e.rec, 1) then position.leave(q, e, true, named, false) end
    if visible then redis.call("ZADD", q.i, 0, "v" .. e.lid) end
  end
  if #named > 0 then redis.call("ZREM", q.i, unpack(named)) end
  redis.call("ZREM", q.a, unpack(ids))
  redis.call("ZADD", q.l, unpack(scores))
  queue.note(q, deadline)
  redis.call("HSET", q.s, unpack(states))
  frame.touch()
end

-- Locked -> Deleted: a commit.
function position.finish(q, entries, reason)
  local marks = {}
  for n = 1, #entries do
    local e = entries[n]
    if string.find(e.st.kind, "V", 1, true) then marks[#marks + 1] = "v" .. e.lid end
  end
  if #marks > 0 then redis.call("ZREM", q.i, unpack(marks)) end
  position.delete(q, entries, reason)
end
