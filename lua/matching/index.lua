--- require lazy "core/record"
--- used by admin/audit, features/group, features/group_lock, features/identifiers, features/trail, matching/candidates,
---   matching/filter, matching/search, waiting/match_waiters, waiting/notify
-- The index of identifiers: finds the available messages of a queue by message id, correlation id or group id. This module
-- writes and reads its part of the zset q.index, whose members all have score 0:
--
--   "m" <id> NUL <lookup id>       message id
--   "c" <id> NUL <lookup id>       correlation id; record.member makes it of a message that has no other member
--   "g" <id> NUL <lookup id>       group id. In a queue that locks groups, <id> is empty for a message without a group
--   "n" <id> NUL <sequence> <offset> <lookup id> <flags> [<length>]     group id, in the logical order of the group:
--                sequence and offset with 9 digits each; flags: a digit, the sum of index.flags; length: of the body in
--                bytes, of segments only. No spaces.
--   example: csabc NUL 040000000000002a   the message 040000000000002a has the correlation id "abc"
--
-- An id is that of the record, "s" and text or "x" and hex digits, without zero bytes at its end (IBM MQ fills short ids
-- with them). Message and correlation ids are in the index up to q.indexed; a search for one brings the index up to date
-- first (matching/index_build). Only available messages are in it: locking one takes it out.
--
-- Change together with: record.member makes the member of a message that has only a correlation id. Members are added and removed
-- by position.special and features/identifiers, and compared by the doctor (audit.members in admin/audit), all by index.append.
-- The letters are those of mqredis/commands/filters.py (tests/contract/test_constants.py compares). A new letter is free, is not
-- behind "y" (matching/mark counts on its marks being last), and is named below; it stands in the pattern of index.lookup_id.
-- audit.element lists those whose score must be 0, and audit.is_indexed tells which belong to a message. A new form of members
-- takes a new schema number (core/manager_config). Tests: tests/matching/test_index_marks.py.
--
-- Other members of q.index, by their first letter: "v" locked, but visible to peeks (core/seek); "w" readers that wait for
-- an identifier (waiting/match_waiters); "l" arrivals (matching/arrivals); "y" and "z" browse marks (matching/mark); "b"
-- and "h" groups with one active message (features/group_lock).
--
-- letters: the first letter of a member, by what it finds. flags: those of a message in a group.
local index = {
  letters = { message_id = "m", correlation_id = "c", group_id = "g", group_order = "n" },
  flags = { last_in_group = 1, segment = 2, last_segment = 4 },
}

-- Identifiers of a message ----------------------------------------------------------------------------------------------

-- Returns an identifier of a record as the index has it; nil for nil. Clients write no none value (mqredis/models/fields.py).
function index.id(text)
  if text and string.sub(text, 1, 1) == "x" then
    while string.sub(text, -2) == "00" do text = string.sub(text, 1, -3) end
  end
  return text
end

-- Returns what the head of a record (core/record) says of the identity of its message, as a table:
--
--   message_id, correlation_id, group_id   nil if it has none
--   sequence, offset   its place in the group
--   group_flags        the sum of index.flags
--   body_bytes         length of its body in the record
function index.fields(rec)
  local head_end, found = string.find(rec, "\0", record.head_at, true), {}
  local head = string.sub(rec, record.head_at, head_end - 1)
  -- The keys of these fields in a head (mqredis/models/fields.py); z has the flags of the group.
  for key, value in string.gmatch(head, "\3([mcgnoz])([^\1\3]*)") do found[key] = value end
  return { message_id = index.id(found.m), correlation_id = index.id(found.c), group_id = index.id(found.g),
    sequence = tonumber(found.n or 1), offset = tonumber(found.o or 0), group_flags = tonumber(found.z or 0),
    body_bytes = #rec - head_end }
end

-- Returns the message id of a message: its own one, or, if its sender gave none, that of record.made_message_id, which is not in
-- the index. `fields`: index.fields of it.
function index.message_id(fields, lookup_id)
  return fields.message_id or record.made_message_id(lookup_id)
end

-- Returns the lookup id in a message id of the form of record.made_message_id; nil for any other message id, and for nil.
function index.lookup_id_in(message_id)
  return message_id and #message_id == 20 and string.match(message_id, "^smq%-(%x+)$") or nil
end

-- Members of a message ---------------------------------------------------------------------------------------------------

-- Appends the members of a message that is, or was, available to a list. `keys`: record.keys of the record. Of q only `indexed`,
-- `locks_groups` and `records` are needed.
function index.append(members, q, lookup_id, rec, keys)
  if lookup_id <= q.indexed then index.append_without_group(members, lookup_id, rec, keys) end
  if not record.has_key(keys, "group_id") and not q.locks_groups then return end
  local fields = index.fields(rec)
  members[#members + 1] = index.letters.group_id .. (fields.group_id or "") .. "\0" .. lookup_id
  if fields.group_id then members[#members + 1] = index.member_in_order(q, lookup_id, rec, fields) end
end

-- Returns the member "n" of a message in a group. `fields`: index.fields of it.
function index.member_in_order(q, lookup_id, rec, fields)
  local member = index.place(fields.group_id, fields.sequence, fields.offset) .. lookup_id .. fields.group_flags
  if not index.is_segment(fields.group_flags) then return member end
  local is_large = record.has_large_body(rec)
  return member .. (is_large and redis.call("HSTRLEN", q.records, "^" .. lookup_id) or fields.body_bytes)
end

-- Appends the members of a message that the index reaches, without those of its group; most messages have none.
function index.append_without_group(members, lookup_id, rec, keys)
  local letters = index.letters
  local id = record.has_key(keys, "message_id") and index.id(record.field(rec, "message_id"))
  if id then members[#members + 1] = letters.message_id .. id .. "\0" .. lookup_id end
  id = record.has_key(keys, "correlation_id") and index.id(record.field(rec, "correlation_id"))
  if id then members[#members + 1] = letters.correlation_id .. id .. "\0" .. lookup_id end
end

-- Searching -------------------------------------------------------------------------------------------------------------

-- Returns up to `count` lookup ids of available messages that have this identifier under this letter, those behind the
-- lookup id `after` ("" for all), in delivery order.
function index.range(q, letter, id, after, count)
  local stem = letter .. id .. "\0"
  local found = redis.call("ZRANGEBYLEX", q.index, "(" .. stem .. after, "(" .. letter .. id .. "\1", "LIMIT", 0, count)
  for n = 1, #found do found[n] = string.sub(found[n], -16) end
  return found
end

-- Returns up to `count` members of q.index that begin with this text, in their order. No member goes on with the byte 255.
function index.beginning_with(q, stem, count)
  return redis.call("ZRANGEBYLEX", q.index, "[" .. stem, "(" .. stem .. "\255", "LIMIT", 0, count)
end

-- Returns the lookup id of a member; nil for a member of another kind.
function index.lookup_id(member)
  local letter = string.sub(member, 1, 1)
  if not string.find(letter, "[mcgn]") then return end
  local stop = string.find(member, "\0", 1, true) or 0
  local from = stop + 1
  if letter == index.letters.group_order then from = from + 18 end -- behind sequence and offset, of 9 digits each
  return string.sub(member, from, from + 15)
end

-- Groups ----------------------------------------------------------------------------------------------------------------

-- Returns the text with which the members of a group in logical order begin: all, or those with this sequence, or those with
-- this sequence and offset. No member goes on with the byte 255, so with that behind it the text is their upper limit.
function index.place(group_id, sequence, offset)
  return index.letters.group_order .. group_id .. "\0" .. (sequence and string.format("%09d", sequence) or "")
    .. (offset and string.format("%09d", offset) or "")
end

-- Returns a member "n" of this group as a table {sequence, offset, lookup_id, flags, length}; length is nil if it is no segment.
function index.parse_member(member, group_id)
  local at, sub = #group_id + 3, string.sub -- behind the letter, the group id and the NUL
  return {
    sequence = tonumber(sub(member, at, at + 8)), offset = tonumber(sub(member, at + 9, at + 17)),
    lookup_id = sub(member, at + 18, at + 33), flags = tonumber(sub(member, at + 34, at + 34)),
    length = tonumber(sub(member, at + 35)),
  }
end

-- Is a message with these flags the last of its group?
function index.is_last_in_group(flags)
  return flags % 2 == 1
end

-- Is it a segment of a message?
function index.is_segment(flags)
  return flags >= index.flags.segment
end

-- Does a message end with it: is it a whole message, or the last segment of one?
function index.ends_message(flags)
  return flags < index.flags.segment or flags >= index.flags.last_segment
end
