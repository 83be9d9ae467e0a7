--- require "core/context"
--- require "core/record"
--- used by admin/audit, core/position, core/seek, features/group, features/group_lock, features/identifiers and others
-- The index of identifiers: finds the available messages of a queue by message id, correlation id or group id. This module
-- writes and reads its part of the zset q.index, whose members all have score 0:
--
--   "m" <id> NUL <lookup id>       message id
--   "c" <id> NUL <lookup id>       correlation id; core/record makes the only member of a message that is named
--   "g" <id> NUL <lookup id>       group id. In a queue that locks groups, <id> is empty for a message without a group
--   "n" <id> NUL <sequence> <offset> <lookup id> <flags> [<length>]     group id, in the logical order of the group:
--                sequence and offset with 9 digits each; flags: a digit, the sum of index.flags; length: of the body in
--                bytes, of segments only. No spaces.
--
-- An id is that of the record, "s" and text or "x" and hex digits, without zero bytes at its end (IBM MQ fills short ids
-- with them). Message and correlation ids are in the index up to q.indexed; a search for one brings the index up to date
-- first (matching/index_build). Only available messages are in it: locking one takes it out.
--
-- Other members of q.index, by their first letter: "v" locked, but visible to peeks (core/seek); "w" readers that wait for
-- an identifier (waiting/match_waiters); "l" arrivals (matching/arrivals); "y" and "z" browse marks (matching/mark); "b"
-- and "h" groups with one active message (features/group_lock).
--
-- letters: the first letter of a member, by the identifier. flags: those of a message in a group.
local index = {
  letters = { message_id = "m", correlation_id = "c", group_id = "g", member = "n" },
  flags = { last_in_group = 1, segment = 2, last_segment = 4 },
}

-- Identifiers of a message ----------------------------------------------------------------------------------------------

-- Returns an identifier as the index has it; nil for the none value, which is no identifier.
function index.id(text)
  if text and string.sub(text, 1, 1) == "x" then
    while string.sub(text, -2) == "00" do text = string.sub(text, 1, -3) end
  end
  if text and #text > 1 then return text end
end

-- Returns the fields of a head that identify its message, as a table; and the length of its body in the record. The ids are nil
-- if the message has none; group_flags is the sum of index.flags.
function index.fields(rec)
  local stop, found = string.find(rec, "\0", 15, true), {}
  for key, value in string.gmatch(string.sub(rec, 15, stop - 1), "\3([mcgnoz])([^\1\3]*)") do found[key] = value end
  return { message_id = index.id(found.m), correlation_id = index.id(found.c), group_id = index.id(found.g),
    sequence = tonumber(found.n or 1), offset = tonumber(found.o or 0), group_flags = tonumber(found.z or 0),
    body_bytes = #rec - stop }
end

-- Returns the identifier that a record has in the index under this letter; nil or false if it has none.
function index.id_of(rec, letter)
  local fields, letters = index.fields(rec), index.letters
  return letter == letters.message_id and fields.message_id
    or letter == letters.correlation_id and fields.correlation_id
    or letter == letters.group_id and fields.group_id
end

-- Members of a message ---------------------------------------------------------------------------------------------------

-- Appends the members of a message to a list. `keys`: record.keys of it.
function index.append(list, q, lookup_id, rec, keys)
  local members = index.members(q, lookup_id, rec, keys)
  for n = 1, #members do list[#list + 1] = members[n] end
end

-- Returns the members of a message. Of q only `indexed`, `locks_groups` and `records` are needed.
function index.members(q, lookup_id, rec, keys)
  local reached = lookup_id <= q.indexed
  if not record.has_key(keys, "group_id") and not q.locks_groups then
    return reached and index.members_without_group(lookup_id, rec, keys) or {}
  end
  local f, letters, members = index.fields(rec), index.letters, {}
  if f.message_id and reached then members[1] = letters.message_id .. f.message_id .. "\0" .. lookup_id end
  if f.correlation_id and reached then
    members[#members + 1] = letters.correlation_id .. f.correlation_id .. "\0" .. lookup_id
  end
  if f.group_id then
    members[#members + 1] = letters.group_id .. f.group_id .. "\0" .. lookup_id
    local member = index.place(f.group_id, f.sequence, f.offset) .. lookup_id .. f.group_flags
    if index.is_segment(f.group_flags) then
      local large = record.has_large_body(rec)
      member = member .. (large and redis.call("HSTRLEN", q.records, "^" .. lookup_id) or f.body_bytes)
    end
    members[#members + 1] = member
  elseif q.locks_groups then
    members[#members + 1] = letters.group_id .. "\0" .. lookup_id
  end
  return members
end

-- Returns the members of a message that the index reaches, and that has no group, as most have none.
function index.members_without_group(lookup_id, rec, keys)
  local letters, members = index.letters, {}
  local id = record.has_key(keys, "message_id") and index.id(record.field(rec, "message_id"))
  if id then members[1] = letters.message_id .. id .. "\0" .. lookup_id end
  id = record.has_key(keys, "correlation_id") and index.id(record.field(rec, "correlation_id"))
  if id then members[#members + 1] = letters.correlation_id .. id .. "\0" .. lookup_id end
  return members
end

-- Searching -------------------------------------------------------------------------------------------------------------

-- Returns letter and id of a filter that names one identifier and nothing else, as most do. Nothing for any other filter, which
-- takes matching/search; nor for a message id that was made from a lookup id, which is not in the index.
function index.direct(q, filter_text)
  local letter, id = string.match(filter_text, "^\3([mcg])([^%z\3]+)%z$")
  if letter and not string.find(id, "^smq%-") and not q.options.group_exclusive then return letter, id end
end

-- Returns up to `count` lookup ids of available messages that have this identifier under this letter, those behind the
-- lookup id `after` ("" for all), in delivery order.
function index.range(q, letter, id, after, count)
  local stem = letter .. id .. "\0"
  local found = redis.call("ZRANGEBYLEX", q.index, "(" .. stem .. after, "(" .. letter .. id .. "\1", "LIMIT", 0, count)
  for n = 1, #found do found[n] = string.sub(found[n], -16) end
  return found
end

-- Returns the lookup id of a member; nil for a member of another kind.
function index.lookup_id(member)
  local letter = string.sub(member, 1, 1)
  if not string.find(letter, "[mcgn]") then return end
  local stop = string.find(member, "\0", 1, true) or 0
  local from = letter == index.letters.member and stop + 19 or stop + 1 -- behind sequence and offset, of 9 digits each
  return string.sub(member, from, from + 15)
end

-- Groups ----------------------------------------------------------------------------------------------------------------

-- Returns the text with which the members of a group in logical order begin: all, or those with this sequence, or those with
-- this sequence and offset. No member goes on with the byte 255, so with that behind it the text is their upper limit.
function index.place(group_id, sequence, offset)
  return index.letters.member .. group_id .. "\0" .. (sequence and string.format("%09d", sequence) or "")
    .. (offset and string.format("%09d", offset) or "")
end

-- Returns sequence, offset, lookup id, flags and length of a member of this group; the length is nil if it is no segment.
function index.parse_member(member, group_id)
  local at, sub = #group_id + 3, string.sub
  return tonumber(sub(member, at, at + 8)), tonumber(sub(member, at + 9, at + 17)), sub(member, at + 18, at + 33),
    tonumber(sub(member, at + 34, at + 34)), tonumber(sub(member, at + 35))
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
