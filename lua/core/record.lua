-- The record of a message, field <id> of a queue's hash m. mqredis/codec writes and reads the same.
--
-- record  arrival_ms(13) flag(1) head "\0" body     flag: digit (0-9, a-v) of 1 special, 2 first and 4 last in its
--         transaction, 8 large body kept under "^"id, 16 named. head: "\3" key value for system fields, "\1" name "\2"
--         value for properties. Special: the head holds a field the scripts must act on when the message comes or
--         goes. Named (with special): a correlation id, a text, is all there is of these, and stands last in the head.
--         Hot loops ask the byte itself: those in record.free set nothing apart, or no more than being named.
local record = {
  -- By the byte of the flag: true if nothing sets the message apart but its marks, "named" if its correlation id alone.
  free = { [48] = true, [50] = true, [52] = true, [54] = true,
    [104] = "named", [106] = "named", [108] = "named", [110] = "named" },
}

function record.flag(rec, bit)
  local flag = string.byte(rec, 14)
  if flag == 48 then return false end
  flag = flag < 58 and flag - 48 or flag - 87
  return flag % (bit * 2) >= bit
end

-- The only member in the index of identifiers that a message with flag bit 16 has (matching/index).
function record.member(rec, lid)
  local at = string.find(rec, "\3c", 15, true)
  return string.sub(rec, at + 1, string.find(rec, "\0", at, true)) .. lid
end

-- A record that is plain or named and nothing else, with the bits 2 or 4 or both.
function record.mark(rec, bits)
  return string.sub(rec, 1, 13) .. string.char(string.byte(rec, 14) + bits) .. string.sub(rec, 15)
end

-- Bit 16 is cleared, since a caller that sets another bit changes what the head asks for.
function record.set_flag(rec, bit)
  local flag = string.byte(rec, 14)
  flag = flag < 58 and flag - 48 or flag - 87
  if flag < 16 and flag % (bit * 2) >= bit then return rec end
  flag = flag % 16
  if flag % (bit * 2) < bit then flag = flag + bit end
  return string.sub(rec, 1, 13) .. string.format("%x", flag) .. string.sub(rec, 15)
end

-- The keys of a head's system fields, in order. They tell at once what need not be looked for.
function record.keys(rec)
  local at = string.find(rec, "\3", 15, true)
  if not at then return "" end
  local stop, keys = string.find(rec, "\0", 15, true), ""
  while at and at < stop do
    keys = keys .. string.sub(rec, at + 1, at + 1)
    at = string.find(rec, "\3", at + 2, true)
  end
  return keys
end

-- A system field of the head as text, or nothing.
function record.field(rec, key)
  local from = string.find(rec, "\3" .. key, 15, true)
  if not from or from > string.find(rec, "\0", 15, true) then return end
  return string.match(rec, "^[^%z\1\3]*", from + 2)
end

-- The digit of the priority: key p of the head, or 3. Many heads are empty.
function record.priority(rec)
  return string.byte(rec, 15) ~= 0 and record.field(rec, "p") or "3"
end

-- The record with this value of a system field, in place of any that it has; nil takes the field away. The field comes first
-- in the head, since other fields have their places at its end.
function record.with(rec, key, value)
  local from = string.find(rec, "\3" .. key, 15, true)
  if from and from < string.find(rec, "\0", 15, true) then
    rec = string.sub(rec, 1, from - 1) .. string.sub(rec, string.match(rec, "^[^%z\1\3]*()", from + 2))
  end
  return value and string.sub(rec, 1, 14) .. "\3" .. key .. value .. string.sub(rec, 15) or rec
end

-- The record as users are shown it: with its arrival less `lead` ms (core/context).
function record.shown(rec, lead)
  return string.format("%013d", string.sub(rec, 1, 13) - lead) .. string.sub(rec, 14)
end

-- When a special message expires, in ms since the epoch; nothing if it never does.
function record.expires(rec)
  local life = record.field(rec, "e")
  if life then return tonumber(string.sub(rec, 1, 13)) - tonumber(record.field(rec, "S") or 0) + tonumber(life) end
end

-- Has a message expired at `now`, in ms?
function record.is_expired(rec, now)
  local at = record.flag(rec, 1) and record.expires(rec)
  return at and at <= now
end

-- Until when the broker holds a special message back; nothing if it does not.
function record.due(rec)
  local ms = record.field(rec, "D")
  if ms then return tonumber(string.sub(rec, 1, 13)) + tonumber(ms) end
end
