--- require "core/context"
--- require "core/queue"
--- require "core/record"
--- require "core/straight"
-- The short way (core/straight) of a transaction's plainest steps: a receive or a send of one message that at most a
-- correlation id sets apart, also one that begins it. The queues are transactional and ask for nothing more. What is written and answered is what the long way would
-- (docs/decisions/0034); what is not so plain goes that way, with what was read.
local straight_tx = {}

-- The transaction as tx.open has it: its deadline, its fence, the number of its next operation, its session. Nothing if
-- it is over, or long, or left something behind: `history` is the number of this call.
function straight_tx.open(id, fence, stamp, history)
  local text, format = redis.call("HGET", KEYS[2], id), string.format
  if string.byte(fence) == 43 then
    if text then return end
    return format("%d", stamp + fence), format("%d", history), "1", context.owner()
  end
  local deadline, granted, count, session = string.match(text or "", "^(%d+) (%d+) (%d%d?) (%S+)$")
  if granted ~= fence or deadline + 0 <= stamp + 0 then return end
  return deadline, fence, format("%d", count + 1), session
end

-- Writes down one more operation, as tx.add does.
function straight_tx.add(id, deadline, fence, count, session, op, lid)
  redis.call("HSET", KEYS[2], id, deadline .. " " .. fence .. " " .. count .. " " .. session,
    id .. ":" .. count, op .. " " .. string.sub(KEYS[3], #KEYS[1] - 1, -3) .. " " .. lid)
end

-- Locks the message for the transaction, as position.lease does. Until then somebody has to look at the queue's timers:
-- when that is, if it is sooner than it was.
function straight_tx.lease(deadline, lid, state, soon)
  redis.call("ZADD", KEYS[5], deadline, lid)
  redis.call("HSET", KEYS[7], lid, state)
  return (soon == "-1" or deadline + 0 < soon + 0) and deadline
end

-- Send one message. The reply; or nothing, and what was read if anything was.
function straight_tx.send()
  local text = ARGV[7]
  local flag = text and string.byte(text)
  if (flag ~= 48 and flag ~= 104) or ARGV[8] or KEYS[11] then return end
  local meta, time, line = straight.read()
  local known, own, stamp, history, seq, messages, bytes, here, held, gone, soon, waiting, marks, locks =
    straight.look(meta, time, "t")
  if not known then return nil, meta, time, line end
  local id, format = ARGV[4], string.format
  local rec = stamp .. text
  local size = #rec
  if size > own.max_bytes then return nil, meta, time, line end
  local deadline, fence, count, session = straight_tx.open(id, ARGV[5], stamp, history)
  if not deadline then return nil, meta, time, line end

  local lid = format("%016x", seq + 1)
  redis.call("HSET", KEYS[6], lid, rec)
  local state = format("0 0 0 0 %d SN ", size) .. id .. " " .. fence
  local sooner = straight_tx.lease(deadline, lid, state, soon)
  straight_tx.add(id, deadline, fence, count, session, "S", lid)
  if flag == 104 then marks = straight.hook(marks) end
  local number = format("%d", history)
  straight.write(number .. format(" %d %d %d", seq + 1, messages + 1, bytes + size),
    ARGV[2] .. " " .. stamp .. " - 0 " .. number .. " 16:" .. lid .. straight.size[#fence] .. ":" .. fence,
    own.brief .. format(" %d %d ", here + 1, held + size) .. gone .. " " .. (sooner or soon) .. " " .. waiting .. " "
      .. marks .. locks)
  return { status.OK, known.incarnation, history, lid, fence }
end

-- What is told of a message that is available and received now, and its size; nothing if it takes a closer look.
function straight_tx.told(rec, state)
  if not state then return rec and "1 0 0 0", rec and #rec end
  local deliveries, others, size = string.match(state, "^(%d+) (%d+ %d+ %d+) (%d+) %- %- 0$")
  if size then return string.format("%d ", deliveries + 1) .. others, size end
end

-- Receive the first message, or that which the reader was rung for. As straight_tx.send.
function straight_tx.receive()
  local id, waiter = ARGV[6], ARGV[9] or ""
  if ARGV[5] ~= "1" or KEYS[11] or (ARGV[8] and (ARGV[8] ~= "" or ARGV[11] ~= "" or ARGV[12] ~= "0")) then
    return
  end
  local meta, time, line = straight.read(waiter ~= "")
  local known, own, stamp, history, seq, messages, bytes, here, held, gone, soon, waiting, marks, locks =
    straight.look(meta, time, "t")
  local hint = context.handed and ARGV[10] ~= "" and string.match(context.handed, "^h (%x+)$")
  if not known or (context.handed and not hint) then return nil, meta, time, line end
  local lid, rec, kind, state = straight.first(hint, not hint) -- a hint may name one with a state that is not available
  local told, size = straight_tx.told(rec, state)
  if not told then return nil, meta, time, line end
  local deadline, fence, count, session = straight_tx.open(id, ARGV[7], stamp, history)
  if not deadline or not straight.take(own, hint, waiter, lid, rec, kind) then return nil, meta, time, line end
  local sooner = straight_tx.lease(deadline, lid, told .. " " .. size .. " RN " .. id .. " " .. fence, soon)
  straight_tx.add(id, deadline, fence, count, session, "R", lid)
  local number = string.format("%d", history)
  local counts = number .. " " .. seq .. " " .. messages .. " " .. bytes
  local kept = straight.granted(stamp, lid, number, fence, deadline)
  if sooner then
    straight.write(counts, kept, own.brief .. " " .. here .. " " .. held .. " " .. gone .. " " .. sooner .. " "
      .. waiting .. " " .. marks .. locks)
  else
    redis.call("HSET", KEYS[1], "counts", counts, ARGV[1], kept)
  end
  return { status.OK, known.incarnation, history, fence, deadline, stamp + 0, 0, lid, told, rec }
end
