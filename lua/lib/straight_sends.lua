--- require "lib/frame"
--- require "lib/position"
--- require "lib/put"
--- require "lib/record"
--- require "lib/straight"
-- The short way of a batch of sends (lib/straight): messages that at most a correlation id sets apart.
local straight_sends = {}

-- Send them all, while nobody waits. As straight_send.one.
function straight_sends.all()
  if KEYS[11] then return end
  local meta, time, p = straight.read()
  local known, own, now, history, seq, messages, bytes, here, held, gone, soon, waiting, hooked =
    straight.look(meta, time, p, "")
  if not known or waiting == "1" then return nil, meta, time, p end
  local format, byte, find, sub, digits = string.format, string.byte, string.find, string.sub, put.digits
  local argv, priorities, most, stamp = ARGV, ARGV[6], own.max_bytes, format("%d", now)
  local count, size, at, last, of, stem = #argv - 6, 0, 0, 0, nil, nil
  local lids, fields, places, named = { nil }, { nil, nil }, { nil, nil }, { nil, nil }
  seq = seq + 0
  for n = 1, count do
    local text = argv[n + 6]
    local flag, rec, priority = byte(text), stamp .. text, byte(priorities, n)
    local long = #rec
    if (flag ~= 104 and flag ~= 48) or long > most then return nil, meta, time, p end
    seq, size = seq + 1, size + long
    -- All but the last digit is the same for most of a batch.
    local low = seq % 16
    if low == 0 or priority ~= of then
      of, stem = priority, format("%02x%013x", 55 - priority, (seq - low) / 16)
    end
    local lid = stem .. digits[low + 1]
    if flag == 104 then
      local key = find(rec, "\3c", 15, true)
      named[last + 1], named[last + 2] = "0", sub(rec, key + 1, find(rec, "\0", key, true)) .. lid
      last = last + 2
    end
    lids[n], fields[at + 1], fields[at + 2], places[at + 1], places[at + 2] = lid, lid, rec, "0", lid
    at = at + 2
  end
  position.spread("HSET", KEYS[6], fields, position.long, position.long)
  if last > 0 then
    position.spread("ZADD", KEYS[10], named, "0", position.long)
    hooked = "1"
  end
  position.spread("ZADD", KEYS[4], places, "0", position.long)
  straight.count(here + count, held + size, gone, soon, waiting, hooked)
  local ids = table.concat(lids)
  straight.keep(history, seq, messages + count, bytes + size,
    format("%s %s - 0 %d %d:%s0:", ARGV[2], stamp, history, #ids, ids))
  return { status.OK, known.incarnation, history, ids, "" }
end
