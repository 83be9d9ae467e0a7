--- require "lib/frame"
--- require "lib/queue"
--- require "lib/record"
--- require "lib/settle"
--- require lazy "lib/packed_locks"
-- The short way of the calls that are made most: one message that at most a correlation id sets apart, in a queue that
-- asks for nothing (no flags, no quota, no parent), with no timer due. A third of what such a call costs is the tables
-- and the calls between modules; here there are none. It has no rules of its own: what it writes and answers is what
-- the long way would (docs/decisions/0034), and whatever is not so plain it leaves to that, unchanged but that a lock may
-- have been unpacked (lib/packed_locks), with what it has read: meta's fields, the time, the queue's fields.
-- Texts are put together by "..", which costs a fifth of what format takes for each; numbers by format, which knows those
-- beyond 14 digits.
-- size: the lengths of these, as texts. most: texts of locks in a queue.
local straight = {
  most = 32,
  size = { "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17" },
}

-- What each call reads. `fence`: of locks that may be packed (lib/packed_locks).
function straight.read(waits, fence)
  local meta, time = frame.read(waits)
  if fence then return meta, time, redis.call("HMGET", KEYS[3], "brief", "counts", "lock:" .. fence) end
  return meta, time, redis.call("HMGET", KEYS[3], "brief", "counts")
end

-- Taken apart: the manager and the queue (frame.learn, queue.learn), the time, then both counts. Nothing if the call is
-- not for this way. `flags`: those that the queue has.
function straight.look(meta, time, p, flags)
  local slot, sequence, match = meta[3], ARGV[2], string.match
  if not slot then return end
  local last = match(slot, "^%d+")
  if #sequence < #last or (#sequence == #last and sequence <= last) then return end
  local known = frame.memo[meta[1]] or frame.learn(meta[1])
  if not known.clock or known.limited then return end
  local own = queue.memo[p[1]] or queue.learn(KEYS[3], p[1])
  if not own or own.generation ~= ARGV[3] or own.flags ~= flags or own.messages or own.bytes then return end
  local now = time[1] * 1000 + math.floor(time[2] / 1000) + known.clock
  local history, seq, messages, bytes = match(meta[2] or "", "^(%d+) (%S+) (%S+) (%S+)$")
  local here, held, gone, soon, waiting, marks =
    match(p[2] or "", "^(%d+) (%d+) (%d+) (%-?%d+) ([01]) (%d+)$")
  if not history or not here or (soon ~= "-1" and soon + 0 <= now) then return end
  return known, own, now, history + 1, seq, messages, bytes, here, held, gone, soon, waiting, marks
end

-- What quota.write and frame.close write. `field` and `value`: locks that are packed.
function straight.count(here, held, gone, soon, waiting, marks, field, value)
  local counts = string.format("%d %d %d ", here, held, gone) .. soon .. " " .. waiting .. " " .. marks
  if field then
    redis.call("HSET", KEYS[3], "counts", counts, field, value)
  else
    redis.call("HSET", KEYS[3], "counts", counts)
  end
end

-- `field` and `value`: what it writes for a reader that it serves.
function straight.keep(history, seq, messages, bytes, kept, field, value)
  straight.write(string.format("%d %d %d %d", history, seq, messages, bytes), kept, field, value)
end

-- The same for counts that are one text already: a look that takes nothing away changes none but the number of the call.
function straight.write(counts, kept, field, value)
  if field then
    redis.call("HSET", KEYS[1], "counts", counts, ARGV[1], kept, field, value)
  else
    redis.call("HSET", KEYS[1], "counts", counts, ARGV[1], kept)
  end
end

-- What a slot keeps of a reader's look that locked these ids (frame.close). `number`: of the call.
function straight.granted(stamp, ids, number, fence, deadline)
  local size = straight.size
  return ARGV[2] .. " " .. stamp .. " " .. ids .. " 0 " .. number .. " " .. size[#fence] .. ":" .. fence
    .. size[#deadline] .. ":" .. deadline .. size[#stamp] .. ":" .. stamp .. "1:0"
end

-- Id, record and kind (record.free) of the first available message, or of that which the reader was rung for; nothing if
-- there is none, or it is not plain, or was held before. With `again` also one that was; then its state.
function straight.first(hint, again)
  local lid = hint or redis.call("ZRANGE", KEYS[4], "0", "0")[1]
  local rec = lid and redis.call("HGET", KEYS[6], lid)
  local kind = rec and record.free[string.byte(rec, 14)]
  local state = kind and redis.call("HGET", KEYS[7], lid)
  if kind and (not state or again) then return lid, rec, kind, state end
end

-- It is nobody else's now: takes back the reader's registration, and the message off the lists. False, and nothing was
-- changed, if it is not available: what is plain and has no state may have been claimed by a pipeline (lib/claim_pages)
-- since the reader was rung for it.
function straight.take(own, hint, waiter, lid, rec, kind)
  if redis.call("ZREM", KEYS[4], lid) == 0 then return false end
  if hint then redis.call("HDEL", KEYS[1], ARGV[1] .. "!") end
  if waiter ~= "" then redis.call("ZREM", KEYS[9], ARGV[1] .. " " .. waiter) end
  if kind == "named" and lid <= own.indexed then redis.call("ZREM", KEYS[10], record.member(rec, lid)) end
  return true
end

-- A special message is in this queue.
function straight.hook(marks)
  if marks == "0" then return "1" end
  return marks % 2 == 0 and string.format("%d", marks + 1) or marks
end

-- The marks that it has with one more text of locks; nothing if it has as many as it may have (lib/packed_locks).
function straight.more(marks)
  if marks + 0 < 2 * straight.most then return string.format("%d", marks + 2) end
end

-- Those that are packed under this fence stand by themselves from here on. Returns the marks that the queue has then.
function straight.unpack(fence, marks)
  packed_locks.load()
  return packed_locks.one(2, fence) and string.format("%d", marks - 2) or marks
end

-- Its bytes, if it is locked under this fence and its commit needs no more than that, else false; the marks that the queue
-- has then; and whether it is all of the text that is packed under this fence.
function straight.held(lid, fence, packed, marks)
  if packed and marks ~= "0" and marks ~= "1" then
    local bytes, ids = string.match(packed, "^%d+ (%d+) %d+ %S+ (%x+)$")
    if ids == lid then return bytes, string.format("%d", marks - 2), true end
    marks = straight.unpack(fence, marks)
  end
  return settle.size(redis.call("HGET", KEYS[7], lid), fence), marks, false
end

-- Take it away, and its lock.
function straight.drop(lid, fence, whole)
  if whole then
    redis.call("HDEL", KEYS[3], "lock:" .. fence)
  else
    redis.call("ZREM", KEYS[5], lid)
    redis.call("HDEL", KEYS[7], lid)
  end
  redis.call("HDEL", KEYS[6], lid)
end

-- What a call of receive wants: lease, waiter, its ticket, and of a lock that it commits fence and id. Nothing if it is not
-- for this way.
function straight.wish()
  local mode, waiter, left = ARGV[4], ARGV[9], ARGV[15]
  if KEYS[11] then return end
  if mode == "next" then return ARGV[5], "", "", ARGV[6], ARGV[7] end
  if ARGV[5] ~= "1" or (mode ~= "lock" and mode ~= "take") then return end
  if not ARGV[8] then return ARGV[7], "", "" end
  if ARGV[8] == "" and ARGV[11] == ""
    and (ARGV[12] == "0" or (ARGV[12] == "1" and ARGV[13] == "c" and #left == 16)) then
    return ARGV[7], waiter, ARGV[10], ARGV[14], left
  end
end

-- Lock or take the first message, or that which the reader was rung for; commit a lock on the way. As straight_send.one.
function straight.receive()
  local lease, waiter, ticket, under, left = straight.wish()
  if not lease then return end
  local meta, time, p = straight.read(waiter ~= "", under)
  local known, own, now, history, seq, messages, bytes, here, held, gone, soon, waiting, marks =
    straight.look(meta, time, p, "")
  local hint = frame.handed and ticket ~= "" and string.match(frame.handed, "^h (%x+)$")
  if not known or (frame.handed and not hint) then return nil, meta, time, p end
  local lid, rec, kind = straight.first(hint)
  local less, after, whole
  if lid and left then less, after, whole = straight.held(left, under, p[3], marks) end
  local mine = lid and (less or not left) and straight.take(own, hint, waiter, lid, rec, kind)
  if not mine then return nil, meta, time, p end
  if left then
    straight.drop(left, under, whole)
    here, held, gone, messages, bytes = here - 1, held - less, gone + 1, messages - 1, bytes - less
  end
  local format, size = string.format, #rec
  local stamp, number = format("%d", now), format("%d", history)
  if ARGV[4] == "take" then
    redis.call("HDEL", KEYS[6], lid)
    straight.count(here - 1, held - size, gone + 1, soon, waiting, marks)
    -- The record holds a zero, and format would end it there.
    straight.keep(history, seq, messages - 1, bytes - size,
      format("%s %s - 0 %s 0:0:%d:%s1:016:%s0:%d:", ARGV[2], stamp, number, #stamp, stamp, lid, size) .. rec)
    return { status.OK, known.incarnation, history, "", "", now, 0, lid, "", rec }
  end
  local deadline = format("%d", now + lease)
  if soon == "-1" or deadline + 0 < soon + 0 then soon = deadline end
  -- One text goes and another comes: there are as many as before.
  after = whole and marks or straight.more(after or marks)
  if after then
    size = format("%d", size)
    straight.count(here, held, gone, soon, waiting, after, "lock:" .. number,
      deadline .. " " .. size .. " " .. size .. " " .. ARGV[1] .. " " .. lid)
  else
    redis.call("ZADD", KEYS[5], deadline, lid)
    redis.call("HSET", KEYS[7], lid, record.lock(size, ARGV[1], number))
    straight.count(here, held, gone, soon, waiting, marks)
  end
  local kept = straight.granted(stamp, lid, number, number, deadline)
  if left then
    straight.keep(history, seq, messages, bytes, kept)
  else
    straight.write(number .. " " .. seq .. " " .. messages .. " " .. bytes, kept)
  end
  return { status.OK, known.incarnation, history, number, deadline, now, 0, lid, "1 0 0 0", rec }
end

-- Commit one lock. As straight_send.one.
function straight.settle()
  local lid = ARGV[7]
  if ARGV[5] ~= "c" or ARGV[8] or #lid ~= 16 or KEYS[11] then return end
  local meta, time, p = straight.read(false, ARGV[6])
  local known, _, now, history, seq, messages, bytes, here, held, gone, soon, waiting, marks =
    straight.look(meta, time, p, "")
  local size, whole
  if known then size, marks, whole = straight.held(lid, ARGV[6], p[3], marks) end
  if not size then return nil, meta, time, p end
  straight.drop(lid, ARGV[6], whole)
  straight.count(here - 1, held - size, gone + 1, soon, waiting, marks)
  local stamp, number = string.format("%d", now), string.format("%d", history)
  straight.keep(history, seq, messages - 1, bytes - size,
    ARGV[2] .. " " .. stamp .. " - 0 " .. number .. " " .. straight.size[#stamp] .. ":" .. stamp)
  return { status.OK, known.incarnation, history, now }
end
