--- require "core/context"
--- require "core/record"
--- require "core/straight"
--- require "waiting/handoff"
--- require "core/message_state"
-- The short way of a send (core/straight): one message, and the reader that waits for it.
-- firsts: how ids begin, by the byte of a priority's digit.
local straight_send = { firsts = { [48] = "07", [49] = "06", [50] = "05", [51] = "04", [52] = "03", [53] = "02",
  [54] = "01", [55] = "00" } }

-- The slot of the first reader that waits and the key of its bell, if that is plain and somebody listens: it takes
-- whatever comes, and a keyspace notification rings it (waiting/waiters, waiting/notify).
function straight_send.listener(waiter)
  local slot, database = string.match(waiter, "^(%S+) [DC] k(%d+) %S*$")
  if not slot then return end
  local bell = handoff.bell(slot, database)
  if bell then return slot, bell end
end

-- Send one message, and serve the reader that waited longest: hand it over, or ring. The reply; or nothing, and what
-- was read if anything was. KEYS are all of a message's, or of the plainest: meta, m, q, a (docs/decisions/0043).
function straight_send.one()
  local text = ARGV[5]
  local flag, first = string.byte(text), straight_send.firsts[string.byte(ARGV[4])]
  if (flag ~= 48 and flag ~= 104) or not first or KEYS[11] then return end
  local meta, time, line = straight.read()
  local known, own, stamp, history, seq, messages, bytes, here, held, gone, soon, waiting, marks, locks =
    straight.look(meta, time, "")
  local few, records = not KEYS[5], KEYS[6] or KEYS[2]
  if not known or (few and waiting == "1") then return nil, meta, time, line end
  local format = string.format
  local rec = stamp .. text
  local size = #rec
  if size > own.max_bytes then return nil, meta, time, line end
  local waiter, slot, bell, channel, lease, sequence, before
  if waiting == "1" then
    waiter = redis.call("ZRANGE", KEYS[9], "0", "0")[1]
    if waiter then
      slot, bell, channel, lease, sequence, before = handoff.reader(waiter)
      if not slot then slot, bell = straight_send.listener(waiter) end
      if not slot then return nil, meta, time, line end
    else
      waiting = "0"
    end
  end
  seq = seq + 1
  local lid = first .. format("%014x", seq)
  local named = flag == 104 and not lease and lid <= own.indexed
  if few and named then return nil, meta, time, line end
  redis.call("HSET", records, lid, rec)
  if flag == 104 then marks = straight.hook(marks) end
  if named then redis.call("ZADD", KEYS[10], "0", record.member(rec, lid)) end
  local field, value, number, deadline
  if lease then
    number, deadline = format("%d", history), format("%d", stamp + lease)
    redis.call("ZADD", KEYS[5], deadline, lid)
    redis.call("HSET", KEYS[7], lid, message_state.first(size, "LN", slot, number))
    if soon == "-1" or deadline + 0 < soon + 0 then soon = deadline end
    field, value = slot, handoff.kept(sequence, stamp, lid, number, deadline, before)
  else
    redis.call("ZADD", KEYS[4], "0", lid)
    if slot then field, value = slot .. "!", "h " .. lid end
  end
  number = number or format("%d", history)
  straight.write(number .. format(" %d %d %d", seq, messages + 1, bytes + size),
    ARGV[2] .. " " .. stamp .. " - 0 " .. number .. " 16:" .. lid,
    own.brief .. format(" %d %d ", here + 1, held + size) .. gone .. " " .. soon .. " " .. waiting .. " " .. marks
      .. locks,
    field, value)
  if slot then redis.call("ZREM", KEYS[9], waiter) end
  if lease then
    handoff.say(channel, bell, slot, sequence, known.incarnation, stamp, lid, number, deadline, rec)
  elseif slot then
    handoff.ring(bell)
  end
  return { status.OK, known.incarnation, history, lid }
end
