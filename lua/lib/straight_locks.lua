--- require "lib/frame"
--- require lazy "lib/packed_locks"
--- require "lib/seek"
--- require "lib/settle"
--- require "lib/straight"
-- The short way of a reader of batches (lib/straight): it locks messages that at most a correlation id sets apart and
-- nobody held before, and commits what it locked so before. What it locks is kept as one text (lib/packed_locks).
local straight_locks = { memo = { size = 0 } }

-- The ids that a text of them names; nothing if it names one twice. What was locked together is mostly settled together.
function straight_locks.ids(text)
  local ids, seen, sub = straight_locks.memo[text], {}, string.sub
  if ids then return ids end
  ids = { nil }
  for n = 1, #text, 16 do
    local lid = sub(text, n, n + 15)
    if seen[lid] then return end
    seen[lid], ids[(n + 15) / 16] = true, lid
  end
  return ids
end

-- The bytes of these locks; nothing if one of them is not held under this fence, or its end needs more than that.
function straight_locks.held(ids, fence)
  local states, bytes, known, size = redis.call("HMGET", KEYS[7], unpack(ids)), 0, nil, nil
  for n = 1, #ids do
    local text = states[n]
    -- Of messages locked together most states are the same text.
    if not text then return end
    if text ~= known then known, size = text, settle.size(text, fence) end
    if not size then return end
    bytes = bytes + size
  end
  return bytes
end

-- The states of those of these that were held before. What is locked has a state: if nothing else has one, none of these
-- has, and none is looked for.
function straight_locks.olds(ids)
  if redis.call("HLEN", KEYS[7]) == redis.call("ZCARD", KEYS[5]) then return {} end
  return redis.call("HMGET", KEYS[7], unpack(ids))
end

-- The bytes of these, of each (0 if they differ), and their elements in the index. Nothing if one is not plain or was
-- held before, or all are too much for a reply.
function straight_locks.plan(ids, recs, olds, indexed)
  local named, last, bytes, each = { nil }, 0, 0, #(recs[1] or "")
  local byte, find, sub = string.byte, string.find, string.sub
  for n = 1, #ids do
    local rec = recs[n]
    local flag = rec and not olds[n] and byte(rec, 14)
    if flag == 104 and ids[n] <= indexed then
      local from = find(rec, "\3c", 15, true)  -- record.member without its call, as in straight_sends
      last = last + 1
      named[last] = sub(rec, from + 1, find(rec, "\0", from, true)) .. ids[n]
    elseif flag ~= 48 and flag ~= 104 then
      return
    end
    local size = #rec
    if size ~= each then each = 0 end
    bytes = bytes + size
  end
  if bytes <= seek.most then return bytes, each, named end
end

-- What a call wants to settle, if that are plain commits of locks under one fence: ids, bytes, the marks of the queue, and
-- whether it is all of a packed text. Nothing if it is not.
function straight_locks.leaving(list, fence, packed, marks)
  local ids = straight_locks.ids(list)
  if not ids then return end
  if packed and marks ~= "0" and marks ~= "1" then
    packed_locks.load()
    local bytes = packed_locks.whole(packed, list)
    if bytes then return ids, bytes, string.format("%d", marks - 2), true end
    marks = straight.unpack(fence, marks)
  end
  local bytes = straight_locks.held(ids, fence)
  if bytes then return ids, bytes, marks, false end
end

-- They go, and their locks.
function straight_locks.drop(ids, fence, whole)
  if whole then
    redis.call("HDEL", KEYS[3], "lock:" .. fence)
  else
    redis.call("ZREM", KEYS[5], unpack(ids))
    redis.call("HDEL", KEYS[7], unpack(ids))
  end
  redis.call("HDEL", KEYS[6], unpack(ids))
end

-- Lock several; commit one run of locks on the way. As straight_send.one, and the first ids, records and states if they
-- were read: plain commits do not change what is available.
function straight_locks.all()
  local waiter, left = ARGV[9], ARGV[15]
  if ARGV[4] ~= "lock" or ARGV[8] ~= "" or ARGV[11] ~= "" or KEYS[11]
    or (ARGV[12] ~= "0" and (ARGV[12] ~= "1" or ARGV[13] ~= "c")) then
    return
  end
  local meta, time, p = straight.read(waiter ~= "", left and ARGV[14])
  local known, own, now, history, seq, messages, bytes, here, held, gone, soon, waiting, marks =
    straight.look(meta, time, p, "")
  if not known or frame.handed then return nil, meta, time, p end
  local leaving, less, after, whole
  if left then
    leaving, less, after, whole = straight_locks.leaving(left, ARGV[14], p[3], marks)
    if not leaving then return nil, meta, time, p end
    marks = after
  end
  local ids = redis.call("ZRANGE", KEYS[4], "0", ARGV[5] - 1)
  if not ids[1] then return nil, meta, time, p end
  local recs, olds = redis.call("HMGET", KEYS[6], unpack(ids)), straight_locks.olds(ids)
  local format = string.format
  local stamp, number, deadline = format("%d", now), format("%d", history), format("%d", now + ARGV[7])
  local size, each, named = straight_locks.plan(ids, recs, olds, own.indexed)
  if not size then return nil, meta, time, p, { ids, recs, olds } end
  if left then
    local count = #leaving
    straight_locks.drop(leaving, ARGV[14], whole)
    here, held, gone, messages, bytes = here - count, held - less, gone + count, messages - count, bytes - less
  end
  if waiter ~= "" then redis.call("ZREM", KEYS[9], ARGV[1] .. " " .. waiter) end
  if named[1] then redis.call("ZREM", KEYS[10], unpack(named)) end
  redis.call("ZREMRANGEBYRANK", KEYS[4], "0", #ids - 1)
  local text = table.concat(ids)
  local sooner = soon == "-1" or deadline + 0 < soon + 0
  packed_locks.load()
  if sooner then soon = deadline end
  local more = straight.more(marks)
  if more then
    straight.count(here, held, gone, soon, waiting, more,
      "lock:" .. number, packed_locks.text(deadline, size, each, ARGV[1], text))
  else
    packed_locks.apart(2, number, deadline, format("%d", each), ARGV[1], text)
    straight.count(here, held, gone, soon, waiting, marks)
  end
  straight.keep(history, seq, messages, bytes,
    straight.granted(stamp, table.concat(ids, ","), number, number, deadline))
  frame.remember(straight_locks.memo, text, ids, 64)
  return { status.OK, known.incarnation, history, number, deadline, now, 0, text, "1 0 0 0", unpack(recs) }
end

-- Commit one run of locks. As straight_send.one.
function straight_locks.settle()
  if ARGV[5] ~= "c" or ARGV[8] or KEYS[11] then return end
  local meta, time, p = straight.read(false, ARGV[6])
  local known, _, now, history, seq, messages, bytes, here, held, gone, soon, waiting, marks =
    straight.look(meta, time, p, "")
  if not known then return nil, meta, time, p end
  local ids, less, after, whole = straight_locks.leaving(ARGV[7], ARGV[6], p[3], marks)
  if not ids then return nil, meta, time, p end
  local count = #ids
  straight_locks.drop(ids, ARGV[6], whole)
  straight.count(here - count, held - less, gone + count, soon, waiting, after)
  local stamp = string.format("%d", now)
  straight.keep(history, seq, messages - count, bytes - less,
    string.format("%s %s - 0 %d %d:%s", ARGV[2], stamp, history, #stamp, stamp))
  return { status.OK, known.incarnation, history, now }
end
