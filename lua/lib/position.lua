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
      entries[#entries + 1] = { lid = ids[n], rec = recs[n], st = states[n] and record.state(states[n]) }
    end
  end
  return entries
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
  local add, gone = {}, {}
  q.arrived = q.arrived or {}
  for n = 1, #entries do
    local e = entries[n]
    local fate
    if record.flag(e.rec, 1) then
      if position.named(q, e.rec) then
        index.load()
        index.add(q, e.lid, e.rec)
      else
        special.load()
        fate = special.arrive(q, e.lid, e.rec, frame.now)
      end
    end
    if fate == "expired" then
      gone[#gone + 1] = e
    elseif fate ~= "delayed" then
      add[#add + 1] = 0
      add[#add + 1] = e.lid
      if fate ~= "busy" then q.arrived[#q.arrived + 1] = e.lid end
    end
  end
  if #add > 0 then redis.call("ZADD", q.a, unpack(add)) end
  if #gone > 0 then position.delete(q, gone, "receive_timeout") end
end

-- Is all that sets a message apart its identifiers? Then the index is all that comes and goes with it.
function position.named(q, rec)
  return not record.asks(rec) and not string.find(q.flags, "x", 1, true)
end

-- A message that is set apart stops being available.
function position.leave(q, e, locked)
  if position.named(q, e.rec) then
    index.load()
    index.drop(q, e.lid, e.rec)
  else
    special.load()
    special.leave(q, e.lid, e.rec, locked)
  end
end

-- Decide: may these entries leave for this reason? Else frame.missing names the queues their traces go to. Plain
-- messages of plain queues leave none.
function position.may_leave(q, entries, reason)
  local traced = reason == "receive" and string.find(q.flags, "j", 1, true)
  for n = 1, #entries do
    local rec = entries[n].rec
    traced = traced or (record.flag(rec, 1) and record.asks(rec))
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
  local free, held, fields, states, bytes = {}, {}, {}, {}, 0
  local traced = reason == "poison" or (reason == "receive" and string.find(q.flags, "j", 1, true))
  for n = 1, #entries do
    local e = entries[n]
    bytes = bytes + position.size(q, e)
    local from = e.st and e.st.kind ~= "-" and held or free
    from[#from + 1] = e.lid
    fields[#fields + 1] = e.lid
    if e.rec then
      if record.flag(e.rec, 8) then fields[#fields + 1] = "^" .. e.lid end
      if record.flag(e.rec, 1) then
        position.leave(q, e, false)
        if record.asks(e.rec) then
          special.load()
          special.gone(q, e.rec, reason)
          traced = reason ~= "aborted"
        end
      end
    end
    if e.st then states[#states + 1] = e.lid end
  end
  if #entries == 0 then return end
  quota.add(q, -#entries, -bytes)
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
  local ids, scores, states = {}, {}, {}
  for n = 1, #entries do
    local e = entries[n]
    local st = e.st or { deliveries = 0, aborts = 0, moves = 0, moved = 0, size = position.size(q, e) }
    if kind ~= "M" then st.deliveries = st.deliveries + 1 end
    st.kind, st.owner, st.fence = kind, owner, fence
    e.st = st
    ids[n] = e.lid
    scores[#scores + 1] = deadline
    scores[#scores + 1] = e.lid
    states[#states + 1] = e.lid
    states[#states + 1] = record.text(st)
    if record.flag(e.rec, 1) then position.leave(q, e, true) end
    if string.find(kind, "V", 1, true) then redis.call("ZADD", q.i, 0, "v" .. e.lid) end
  end
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
