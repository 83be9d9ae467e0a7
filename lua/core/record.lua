--- used by 40 files: 5 scripts, 6 in admin, 2 in claims, 8 in core, 13 in features, 2 in matching, selector/selector_field, 2 in
---   transactions, waiting/handoff
-- The record of a message: its stored text, field <id> of a queue's hash `records`.
--
--   record  arrival_ms(13) flag(1) head "\0" body
--           example, with a correlation id and a property: "1764000000000" "h" "\1region\2sEU\3cc-1" "\0" "tea"
--   flag    one digit to the base of 32 (0-9, a-v), the sum of these bits (record.bits):
--           special  scripts must act on a field of the head when the message comes or goes
--           first    it is the first message of its transaction; last: the last one
--           large    the body is not in the record but in the field "^"id
--           named    with special: the only field that scripts act on is a correlation id, a text at the end of the head
--           No bit is left.
--   head    "\1" name "\2" value for each property, "\3" key value for each system field; the key is one letter. Of a field
--           with "~" before its key the value is kept, but no script acts on it, for example in a dead letter
--
-- Change together with: a new field has a free letter, a row in mqredis/models/fields.py, which has all letters of senders, and a
-- kind of value in mqredis/codec/decode.py (`_SYSTEM`) if scripts set it; tests/contract/test_fields.py compares the names. One on
-- which scripts act is SPECIAL in its row, and is among the `fields` or `traced` of features/features. The form of a record and the
-- bits of its flag are known to mqredis/models/record_parts.py, whose users take them from there, and to mqredis/codec/decode.py
-- (`_RECORD`; tests/contract/test_stored_texts.py compares), and here to record.free; the places of arrival, flag
-- and head stand as numbers in this file, in selector/selector and in selector/selector_condition. Who moves, copies or
-- removes a record with the flag large does so with its field "^"id as well.
--
-- Values hold no control characters (mqredis/codec escapes them). A caller that changes a record must keep its size counted
-- (core/store) and, if it adds a field on which scripts act, set the bit special.
--
-- `rec` is the text of a record in all files, and `head` that of a head alone. Nearly all scripts need this module. Most messages
-- are plain, with the flag "0": hot loops compare the byte of the flag with record.plain or look it up in record.free.
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
  -- The place of the flag; the functions here have the number, which costs less. Then the bytes of the flags "0", a message that
  -- is not special, and "h", one that is special and named.
  flag_at = 14, plain = 48, named = 104,
  -- The place where the head begins.
  head_at = 15,
  -- By the byte of the flag, for records whose body is not large: true if the message is not special, "named" if it is named. So
  -- record.free[string.byte(rec, record.flag_at)] says that scripts need not look into the record.
  free = { [48] = true, [50] = true, [52] = true, [54] = true,
    [104] = "named", [106] = "named", [108] = "named", [110] = "named" },
}

-- The flag ---------------------------------------------------------------------------------------------------------------

-- Returns the sum of bits that a flag stands for. `byte`: of the digit, "0" to "9" (48 to 57) or "a" to "v" (97 to 118).
function record.sum_of_bits(byte)
  return byte < 58 and byte - 48 or byte - 87
end

-- Is this bit set? `bit`: one of record.bits.
function record.flag(rec, bit)
  local byte = string.byte(rec, 14)
  if byte == record.plain then return false end
  return record.sum_of_bits(byte) % (bit * 2) >= bit
end

-- Must scripts act on a field of the head when the message comes or goes?
function record.is_special(rec)
  return record.flag(rec, 1)
end

-- Is the body not in the record, but in a field of its own?
function record.has_large_body(rec)
  return record.flag(rec, 8)
end

-- Returns the record of a message that is the first or the last one of its transaction, or both (3.1.4.3). `bits`: the bits first
-- and last or their sum, which the record does not have yet. The head does not change, so the bit named stays.
function record.mark(rec, bits)
  local sum = record.sum_of_bits(string.byte(rec, 14)) + bits
  return string.sub(rec, 1, 13) .. string.char(sum < 10 and sum + 48 or sum + 87) .. string.sub(rec, 15)
end

-- Returns the record with this bit set. The bit named, 16, is cleared, since callers change the head, too.
function record.set_flag(rec, bit)
  local sum = record.sum_of_bits(string.byte(rec, 14)) % 16
  if sum % (bit * 2) < bit then sum = sum + bit end
  return string.sub(rec, 1, 13) .. string.format("%x", sum) .. string.sub(rec, 15)
end

-- The head ---------------------------------------------------------------------------------------------------------------

-- Returns the keys of the head's system fields, one letter each, in their order. A field whose key is not among them need not
-- be looked for.
function record.keys(rec)
  local stop = string.find(rec, "\0", 15, true) or #rec + 1 -- a damaged record may have no NUL
  return (string.gsub(string.sub(rec, 15, stop - 1), "[^\3]*\3?(.?)", "%1"))
end

-- Is this field among `keys` (record.keys)?
function record.has_key(keys, name)
  return string.find(keys, string.sub(record.fields[name], 2), 1, true) ~= nil
end

-- Is one of these fields among `keys`?
function record.has_any(keys, names)
  for n = 1, #names do
    if record.has_key(keys, names[n]) then return true end
  end
  return false
end

-- Returns a pattern that matches the key of any of these fields.
function record.any_key(names)
  local keys = { nil }
  for n = 1, #names do keys[n] = string.sub(record.fields[names[n]], 2) end
  return "[" .. table.concat(keys) .. "]"
end

-- Returns the message id of a message whose sender gave none, in the form that identifiers have in a head: "s", since it is a text
-- ("x" stands before hex digits, matching/index).
function record.made_message_id(lookup_id)
  return "smq-" .. lookup_id
end

-- Returns the member of the index of identifiers for a message that is named; it has no other one (matching/index).
function record.member(rec, id)
  local at = string.find(rec, record.fields.correlation_id, 15, true)
  return string.sub(rec, at + 1, string.find(rec, "\0", at, true)) .. id
end

-- Returns the head of a record; and what stands behind it, the NUL and the body.
function record.split(rec)
  local stop = string.find(rec, "\0", 15, true)
  return string.sub(rec, 15, stop - 1), string.sub(rec, stop)
end

-- Returns the record with this text in front of its head.
function record.prepend(rec, text)
  return string.sub(rec, 1, 14) .. text .. string.sub(rec, 15)
end

-- Returns a head without these fields; `names`: of record.fields, here and below.
function record.without(head, names)
  return (string.gsub(head, "\3" .. record.any_key(names) .. "[^\1\3]*", ""))
end

-- Returns a head with "~" before the keys of these fields: they are kept, but no script acts on them until record.resume.
function record.suspend(head, names)
  return (string.gsub(head, "\3(" .. record.any_key(names) .. ")", "\3~%1"))
end

-- Returns a head without the "~" before the keys of these fields.
function record.resume(head, names)
  return (string.gsub(head, "\3~(" .. record.any_key(names) .. ")", "\3%1"))
end

-- Returns a system field as text; nil if the head does not have it.
function record.field(rec, name)
  local from = string.find(rec, record.fields[name], 15, true)
  if not from or from > string.find(rec, "\0", 15, true) then return end
  return string.match(rec, "^[^%z\1\3]*", from + 2)
end

-- Returns the priority as text; it is 3 if the head does not say.
function record.priority(rec)
  -- Many heads are empty, which one byte tells.
  return string.byte(rec, 15) ~= 0 and record.field(rec, "priority") or "3"
end

-- Returns the record with this value of a system field; nil removes the field. It is put at the front of the head, since
-- the correlation id of a named record has to stand at its end.
function record.with(rec, name, value)
  local head, body = record.split(rec)
  rec = string.sub(rec, 1, 14) .. record.without(head, { name }) .. body
  return value and record.prepend(rec, record.fields[name] .. value) or rec
end

-- Times ------------------------------------------------------------------------------------------------------------------

-- Returns when the message arrived, in ms of broker time.
function record.arrived(rec)
  return tonumber(string.sub(rec, 1, 13))
end

-- Returns the record as users are shown it, with its arrival less `lead` ms (core/context).
function record.shown(rec, lead)
  return string.format("%013d", string.sub(rec, 1, 13) - lead) .. string.sub(rec, 14)
end

-- Returns the broker time in ms at which the message expires; nil if it never does. Its life began when it was first sent.
-- `_expires_at` in mqredis/models/message.py and `expires_ms` in mqredis/spark/columns.py say the same
-- (tests/contract/test_stored_texts.py and tests/spark/test_documentation.py compare).
function record.expires(rec)
  local life = record.field(rec, "time_to_be_received")
  if not life then return end
  return record.arrived(rec) - tonumber(record.field(rec, "sent_ms_before") or 0) + tonumber(life)
end

-- Has a message expired at `now`, in ms?
function record.is_expired(rec, now)
  local at = record.is_special(rec) and record.expires(rec)
  return at and at <= now
end

-- Returns the broker time in ms at which the delay of the message ends; nil if it has none.
function record.due(rec)
  local ms = record.field(rec, "delay")
  if ms then return record.arrived(rec) + tonumber(ms) end
end
