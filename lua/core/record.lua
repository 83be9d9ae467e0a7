--- used by admin/audit, admin/rewrite, admin/schedules, admin/sweep, claims/fill, claims/publish and 29 more
-- The record of a message, field <id> of a queue's hash m. mqredis/codec writes and reads the same.
--
--   record  arrival_ms(13) flag(1) head "\0" body
--   flag    a digit (0-9, a-v): the sum of record.bits
--           special  the head holds a field that the scripts must act on when the message comes or goes
--           first, last  in its transaction
--           large    the body is kept under "^"id
--           named    (with special) a correlation id, a text, is the only such field, and stands last in the head
--   head    "\1" name "\2" value for properties, "\3" key value for system fields. A "~" before the key keeps a field
--           that nothing acts on, as a dead letter has it
--
-- Hot loops ask the byte of the flag itself: those in record.free set nothing apart, or no more than being named.
local record = {
  bits = { special = 1, first = 2, last = 4, large = 8, named = 16 },
  -- The mark and the key of the system fields that scripts use. Senders set these (mqredis/models/fields.py has them all):
  fields = {
    acknowledge = "\3a", administration_queue = "\3A", content_type = "\3y", correlation_id = "\3c",
    dead_letter_queue = "\3Q", dedup_key = "\3k", dedup_window = "\3K", delay = "\3D", group_id = "\3g",
    journal = "\3j", label = "\3l", message_id = "\3m", priority = "\3p", recoverable = "\3d",
    response_queue = "\3r", sent_ms_before = "\3S", time_to_be_received = "\3e", time_to_reach_queue = "\3u",
    -- and the scripts these: of a message of a transaction; of copies and acknowledgements (features/copy); of messages with
    -- a trail (features/trail) or in ;trash (features/trash).
    transaction_id = "\3T", message_class = "\3C", original_arrived_ms = "\3B", original_lookup_id = "\3I",
    original_queue = "\3O", reason = "\3R", trail = "\3L", trash = "\3Z",
  },
  -- The fields of a duplicate check (features/dedup).
  dedup_fields = { "dedup_key", "dedup_window" },
  -- Bytes of the flags "0", of a message that nothing sets apart, and "h", of one that is named and special.
  plain = 48, named = 104,
  -- By the byte of the flag: true if nothing sets the message apart but its marks, "named" if its correlation id alone.
  free = { [48] = true, [50] = true, [52] = true, [54] = true,
    [104] = "named", [106] = "named", [108] = "named", [110] = "named" },
}

function record.flag(rec, bit)
  local flag = string.byte(rec, 14)
  if flag == record.plain then return false end
  flag = flag < 58 and flag - 48 or flag - 87
  return flag % (bit * 2) >= bit
end

function record.is_special(rec)
  return record.flag(rec, 1)
end

function record.has_large_body(rec)
  return record.flag(rec, 8)
end

-- The only member in the index of identifiers that a message that is named has (matching/index).
function record.member(rec, lid)
  local at = string.find(rec, record.fields.correlation_id, 15, true)
  return string.sub(rec, at + 1, string.find(rec, "\0", at, true)) .. lid
end

-- A record that is plain or named and nothing else, with the bits first or last or both.
function record.mark(rec, bits)
  return string.sub(rec, 1, 13) .. string.char(string.byte(rec, 14) + bits) .. string.sub(rec, 15)
end

-- The bit named is cleared, since a caller that sets another bit changes what the head asks for.
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

-- Is this field among the keys of a head?
function record.has_key(keys, name)
  return string.find(keys, string.sub(record.fields[name], 2), 1, true) ~= nil
end

function record.has_any(keys, names)
  for n = 1, #names do
    if record.has_key(keys, names[n]) then return true end
  end
  return false
end

-- A pattern for the key of any of these fields.
function record.any_key(names)
  local keys = { nil }
  for n = 1, #names do keys[n] = string.sub(record.fields[names[n]], 2) end
  return "[" .. table.concat(keys) .. "]"
end

-- The head without these fields.
function record.without(head, names)
  return (string.gsub(head, "\3" .. record.any_key(names) .. "[^\1\3]*", ""))
end

-- The head with "~" before the keys of these fields, so that they are kept and nothing acts on them; and the reverse.
function record.suspend(head, names)
  return (string.gsub(head, "\3(" .. record.any_key(names) .. ")", "\3~%1"))
end

function record.resume(head, names)
  return (string.gsub(head, "\3~(" .. record.any_key(names) .. ")", "\3%1"))
end

-- A system field of the head as text, or nothing.
function record.field(rec, name)
  local from = string.find(rec, record.fields[name], 15, true)
  if not from or from > string.find(rec, "\0", 15, true) then return end
  return string.match(rec, "^[^%z\1\3]*", from + 2)
end

-- The digit of the priority: key p of the head, or 3. Many heads are empty.
function record.priority(rec)
  return string.byte(rec, 15) ~= 0 and record.field(rec, "priority") or "3"
end

-- The record with this value of a system field, in place of any that it has; nil takes the field away. The field comes first
-- in the head, since other fields have their places at its end.
function record.with(rec, name, value)
  local from = string.find(rec, record.fields[name], 15, true)
  if from and from < string.find(rec, "\0", 15, true) then
    rec = string.sub(rec, 1, from - 1) .. string.sub(rec, string.match(rec, "^[^%z\1\3]*()", from + 2))
  end
  return value and string.sub(rec, 1, 14) .. record.fields[name] .. value .. string.sub(rec, 15) or rec
end

-- The record as users are shown it: with its arrival less `lead` ms (core/context).
function record.shown(rec, lead)
  return string.format("%013d", string.sub(rec, 1, 13) - lead) .. string.sub(rec, 14)
end

-- When a special message expires, in ms since the epoch; nothing if it never does.
function record.expires(rec)
  local life = record.field(rec, "time_to_be_received")
  if not life then return end
  return tonumber(string.sub(rec, 1, 13)) - tonumber(record.field(rec, "sent_ms_before") or 0) + tonumber(life)
end

-- Has a message expired at `now`, in ms?
function record.is_expired(rec, now)
  local at = record.is_special(rec) and record.expires(rec)
  return at and at <= now
end

-- Until when the broker holds a special message back; nothing if it does not.
function record.due(rec)
  local ms = record.field(rec, "delay")
  if ms then return tonumber(string.sub(rec, 1, 13)) + tonumber(ms) end
end
