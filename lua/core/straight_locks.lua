--- require "core/context"
--- require "core/chunked"
--- require lazy "core/packed_locks"
--- require "core/seek"
--- require "core/settle"
--- require "core/straight"
-- The short way of a reader of batches (core/straight): it locks messages that at most a correlation id sets apart and
-- nobody held before, and commits what it locked so before. What it locks is kept as one text (core/packed_locks).
local straight_locks = { memo = { size = 0 } }

-- The ids that a text of them names; nothing if it names one twice, or more than one command takes (core/chunked). What was
-- locked together is mostly settled together.
function straight_locks.ids(text)
  local ids, seen, sub = straight_locks.memo[text], {}, string.sub
  if ids then return ids end
  if #text > 16 * chunked.most then return end
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

-- What a call wants to settle, if that are plain commits of locks under one fence: ids, bytes, the marks and the locks of the
-- queue then, and where these stood if that was short, as straight.held tells it; `text` stood beside its line under this
-- fence. Nothing if it is not.
function straight_locks.leaving(list, fence, text, marks, locks)
  local ids = straight_locks.ids(list)
  if not ids then return end
  if #ids == 1 then
    local size, where
    size, marks, locks, where = straight.held(list, fence, marks, locks)
    if size then return ids, size + 0, marks, locks, where end
    return
  end
  if locks ~= "" then
    packed_locks.load()
    local rest = packed_locks.without(locks, fence)
    if rest then
      marks, locks = string.format("%d", marks - 2), rest
      local bytes = text and packed_locks.whole(text, list)
      if bytes then return ids, bytes, marks, locks, "text" end
      packed_locks.one(2, fence)
    end
  end
  local bytes = straight_locks.held(ids, fence)
  if bytes then return ids, bytes, marks, locks end
end

-- They go, and their locks, which stood `where`.
function straight_locks.drop(ids, fence, where)
  if where == "text" then
    redis.call("HDEL", KEYS[1], "lock:" .. fence)
  elseif not where then
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
  local meta, time, line, packed = straight.read(waiter ~= "", left and ARGV[14])
  local known, own, stamp, history, seq, messages, bytes, here, held, gone, soon, waiting, marks, locks =
    straight.look(meta, time, "")
  if not known or context.handed then return nil, meta, time, line end
  local leaving, less, after, rest, where
  if left then
    leaving, less, after, rest, where = straight_locks.leaving(left, ARGV[14], packed, marks, locks)
    if not leaving then return nil, meta, time, line end
    marks, locks = after, rest
  end
  local ids = redis.call("ZRANGE", KEYS[4], "0", ARGV[5] - 1)
  if not ids[1] then return nil, meta, time, line end
  local recs, olds = redis.call("HMGET", KEYS[6], unpack(ids)), straight_locks.olds(ids)
  local format = string.format
  local number, deadline = format("%d", history), format("%d", stamp + ARGV[7])
  local size, each, named = straight_locks.plan(ids, recs, olds, own.indexed)
  if not size then return nil, meta, time, line, { ids, recs, olds } end
  if left then
    local count = #leaving
    straight_locks.drop(leaving, ARGV[14], where)
    here, held, gone, messages, bytes = here - count, held - less, gone + count, messages - count, bytes - less
  end
  if waiter ~= "" then redis.call("ZREM", KEYS[9], ARGV[1] .. " " .. waiter) end
  if named[1] then redis.call("ZREM", KEYS[10], unpack(named)) end
  redis.call("ZREMRANGEBYRANK", KEYS[4], "0", #ids - 1)
  local text = table.concat(ids)
  local sooner = soon == "-1" or deadline + 0 < soon + 0
  packed_locks.load()
  if sooner then soon = deadline end
  local more, field, value = straight.more(marks), nil, nil
  if more then
    marks, locks, field = more, locks .. " " .. number, "lock:" .. number
    value = packed_locks.text(deadline, size, each, ARGV[1], text)
  else
    packed_locks.apart(2, number, deadline, format("%d", each), ARGV[1], text)
  end
  straight.write(number .. " " .. seq .. format(" %d %d", messages, bytes),
    straight.granted(stamp, table.concat(ids, ","), number, number, deadline),
    own.brief .. format(" %d %d %d ", here, held, gone) .. soon .. " " .. waiting .. " " .. marks .. locks,
    field, value)
  context.remember(straight_locks.memo, text, ids, 64)
  return { status.OK, known.incarnation, history, number, deadline, stamp + 0, 0, text, "1 0 0 0", unpack(recs) }
end

-- Commit one run of locks. As straight_send.one.
function straight_locks.settle()
  if ARGV[5] ~= "c" or ARGV[8] or KEYS[11] then return end
  local meta, time, line, packed = straight.read(false, ARGV[6])
  local known, own, stamp, history, seq, messages, bytes, here, held, gone, soon, waiting, marks, locks =
    straight.look(meta, time, "")
  if not known then return nil, meta, time, line end
  local ids, less, after, rest, where = straight_locks.leaving(ARGV[7], ARGV[6], packed, marks, locks)
  if not ids then return nil, meta, time, line end
  local count, format = #ids, string.format
  straight_locks.drop(ids, ARGV[6], where)
  straight.write(format("%d ", history) .. seq .. format(" %d %d", messages - count, bytes - less),
    format("%s %s - 0 %d %d:%s", ARGV[2], stamp, history, #stamp, stamp),
    own.brief .. format(" %d %d %d ", here - count, held - less, gone + count) .. soon .. " " .. waiting .. " " .. after
      .. rest)
  return { status.OK, known.incarnation, history, stamp + 0 }
end
