--- require "core/context"
--- require "core/queue"
--- require "core/record"
--- require "core/settle"
--- require lazy "core/packed_locks"
--- require "core/message_state"
-- The short way of the calls that are made most: one message that at most a correlation id sets apart, in a queue that
-- asks for nothing (no flags, no quota, no parent), with no timer due. A third of what such a call costs is the tables
-- and the calls between modules; here there are none. It has no rules of its own: what it writes and answers is what
-- the long way would (docs/decisions/0034), and whatever is not so plain it leaves to that, unchanged but that a lock may
-- have been unpacked (core/packed_locks), with what it has read: meta's fields, the time, the queue's line.
-- Texts are put together by "..", which costs a fifth of what format takes for each; numbers by format, which knows those
-- beyond 14 digits.
-- size: the lengths of these, as texts. most: texts of locks beside a line. room: with fewer bytes of locks a line takes one
-- more; to read and write them costs as much as a text beside it, by then.
local straight = {
  most = 32, room = 512,
  size = { "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17" },
}

-- What each call reads, at once: of the manager, of its slot, and the line of its queue; and the text of locks of this
-- `fence`, if one is given. Returns the first three with the line behind them, the time, the line and that text.
function straight.read(waits, fence)
  local slot = ARGV[1]
  local meta
  if not waits then
    context.handed = nil
    if not fence then
      meta = redis.call("HMGET", KEYS[1], "brief", "counts", slot, KEYS[3])
      return meta, redis.call("TIME"), meta[4]
    end
    meta = redis.call("HMGET", KEYS[1], "brief", "counts", slot, KEYS[3], "lock:" .. fence)
    return meta, redis.call("TIME"), meta[4], meta[5]
  end
  if fence then
    meta = redis.call("HMGET", KEYS[1], "brief", "counts", slot, KEYS[3], slot .. "!", "lock:" .. fence)
  else
    meta = redis.call("HMGET", KEYS[1], "brief", "counts", slot, KEYS[3], slot .. "!")
  end
  context.handed = meta[5]
  return meta, redis.call("TIME"), meta[4], meta[6]
end

-- The time in ms as context.now_text has it: what TIME answers, put together as text.
function straight.stamp(seconds, micro, clock)
  if clock ~= 0 then return string.format("%d", seconds * 1000 + math.floor(micro / 1000) + clock) end
  -- TIME tells them without zeros in front.
  local size = #micro
  if size == 6 then return seconds .. string.sub(micro, 1, 3) end
  if size == 5 then return seconds .. "0" .. string.sub(micro, 1, 2) end
  return seconds .. (size == 4 and "00" .. string.sub(micro, 1, 1) or "000")
end

-- Taken apart: the manager and the queue (context.parse_config, queue.parse_config), the time as text, then both counts, and the locks in
-- the line. Nothing if the call is not for this way. `flags`: those that the queue has.
function straight.look(meta, time, flags)
  local slot, sequence, match = meta[3], ARGV[2], string.match
  if not slot then return end
  local last = match(slot, "^%d+")
  if #sequence < #last or (#sequence == #last and sequence <= last) then return end
  local known = context.memo[meta[1]] or context.parse_config(meta[1])
  if not known.clock or known.limited then return end
  local brief, here, held, gone, soon, waiting, marks, locks = match(meta[4] or "", queue.line)
  local own = brief and (queue.memo[brief] or queue.parse_config(KEYS[3], brief))
  if not own or own.generation ~= ARGV[3] or own.flags ~= flags or own.messages or own.bytes then return end
  local stamp = straight.stamp(time[1], time[2], known.clock)
  local history, seq, messages, bytes = match(meta[2] or "", "^(%d+) (%S+) (%S+) (%S+)$")
  if not history or (soon ~= "-1" and soon + 0 <= stamp + 0) then return end
  return known, own, stamp, history + 1, seq, messages, bytes, here, held, gone, soon, waiting, marks, locks
end

-- What context.close and queue.write write, at once. `field` and `value`: one more, of a reader that it serves or a text of
-- locks.
function straight.write(counts, kept, line, field, value)
  if field then
    redis.call("HSET", KEYS[1], "counts", counts, ARGV[1], kept, KEYS[3], line, field, value)
  else
    redis.call("HSET", KEYS[1], "counts", counts, ARGV[1], kept, KEYS[3], line)
  end
end

-- What a slot keeps of a reader's look that locked these ids (context.close). `number`: of the call.
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
-- changed, if it is not available: what is plain and has no state may have been claimed by a pipeline (claims/claim_pages)
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

-- The marks that it has with one more text of locks beside its line; nothing if it has as many as it may have.
function straight.more(marks)
  if marks + 0 < 2 * straight.most then return string.format("%d", marks + 2) end
end

-- Its bytes, if it is locked under this fence and its commit needs no more than that, else nothing; the marks and the locks
-- that the queue has then; and where the lock stood if that was short: in the line, or in a text beside it.
function straight.held(lid, fence, marks, locks)
  if locks ~= "" then
    local match, from, to = string.match, string.find(locks, " " .. fence .. ",", 1, true)
    if from then
      local size, id, stop = match(locks, "^(%d+),%d+,[%d.]+,(%x+)()", to + 1)
      if id ~= lid then return end
      return size, marks, string.sub(locks, 1, from - 1) .. string.sub(locks, stop), "line"
    end
    packed_locks.load()
    local rest = packed_locks.without(locks, fence)
    if rest then
      marks, locks = string.format("%d", marks - 2), rest
      local bytes, ids = match(redis.call("HGET", KEYS[1], "lock:" .. fence) or "", "^%d+ (%d+) %d+ %S+ (%x+)$")
      if ids == lid then return bytes, marks, locks, "text" end
      packed_locks.one(2, fence)
    end
  end
  return settle.size(redis.call("HGET", KEYS[7], lid), fence), marks, locks
end

-- Take it away, and its lock, which stood `where`.
function straight.drop(lid, fence, where)
  if where == "text" then
    redis.call("HDEL", KEYS[1], "lock:" .. fence)
  elseif not where then
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
  local meta, time, line = straight.read(waiter ~= "")
  local known, own, stamp, history, seq, messages, bytes, here, held, gone, soon, waiting, marks, locks =
    straight.look(meta, time, "")
  local hint = context.handed and ticket ~= "" and string.match(context.handed, "^h (%x+)$")
  if not known or (context.handed and not hint) then return nil, meta, time, line end
  local lid, rec, kind = straight.first(hint)
  local less, after, rest, where
  if lid and left then less, after, rest, where = straight.held(left, under, marks, locks) end
  local mine = lid and (less or not left) and straight.take(own, hint, waiter, lid, rec, kind)
  if not mine then return nil, meta, time, line end
  local format, size = string.format, #rec
  if left then
    straight.drop(left, under, where)
    here, held, gone = format("%d", here - 1), format("%d", held - less), format("%d", gone + 1)
    messages, bytes, marks, locks = format("%d", messages - 1), format("%d", bytes - less), after, rest
  end
  local number, slot = format("%d", history), ARGV[1]
  if ARGV[4] == "take" then
    redis.call("HDEL", KEYS[6], lid)
    -- The record holds a zero, and format would end it there.
    straight.write(number .. " " .. seq .. format(" %d %d", messages - 1, bytes - size),
      format("%s %s - 0 %s 0:0:%d:%s1:016:%s0:%d:", ARGV[2], stamp, number, #stamp, stamp, lid, size) .. rec,
      own.brief .. format(" %d %d %d ", here - 1, held - size, gone + 1) .. soon .. " " .. waiting .. " " .. marks
        .. locks)
    return { status.OK, known.incarnation, history, "", "", stamp + 0, 0, lid, "", rec }
  end
  local deadline = format("%d", stamp + lease)
  if soon == "-1" or deadline + 0 < soon + 0 then soon = deadline end
  size = format("%d", size)
  local field, value, more
  if #locks < straight.room then
    locks = locks .. " " .. number .. "," .. size .. "," .. deadline .. "," .. slot .. "," .. lid
  else
    more = straight.more(marks)
    if more then
      marks, locks, field = more, locks .. " " .. number, "lock:" .. number
      value = deadline .. " " .. size .. " " .. size .. " " .. slot .. " " .. lid
    else
      redis.call("ZADD", KEYS[5], deadline, lid)
      redis.call("HSET", KEYS[7], lid, message_state.first(size, "LN", slot, number))
    end
  end
  straight.write(number .. " " .. seq .. " " .. messages .. " " .. bytes,
    straight.granted(stamp, lid, number, number, deadline),
    own.brief .. " " .. here .. " " .. held .. " " .. gone .. " " .. soon .. " " .. waiting .. " " .. marks .. locks,
    field, value)
  return { status.OK, known.incarnation, history, number, deadline, stamp + 0, 0, lid, "1 0 0 0", rec }
end

-- Commit one lock. As straight_send.one.
function straight.settle()
  local lid = ARGV[7]
  if ARGV[5] ~= "c" or ARGV[8] or #lid ~= 16 or KEYS[11] then return end
  local meta, time, line = straight.read(false)
  local known, own, stamp, history, seq, messages, bytes, here, held, gone, soon, waiting, marks, locks =
    straight.look(meta, time, "")
  local size, where
  if known then size, marks, locks, where = straight.held(lid, ARGV[6], marks, locks) end
  if not size then return nil, meta, time, line end
  straight.drop(lid, ARGV[6], where)
  local format = string.format
  local number = format("%d", history)
  straight.write(number .. " " .. seq .. format(" %d %d", messages - 1, bytes - size),
    ARGV[2] .. " " .. stamp .. " - 0 " .. number .. " " .. straight.size[#stamp] .. ":" .. stamp,
    own.brief .. format(" %d %d %d ", here - 1, held - size, gone + 1) .. soon .. " " .. waiting .. " " .. marks
      .. locks)
  return { status.OK, known.incarnation, history, stamp + 0 }
end
