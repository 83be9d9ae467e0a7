--- require "core/context"
--- require "core/record"
--- used by admin/audit, claims/claim, core/position, core/seek, features/group, features/group_lock and others
-- The index of identifiers: members of q.index, all with score 0, of available messages only. Used by matching/candidates and
-- matching/search, and by all scripts that make a message available or take it away. Ids are as in a record: "s" and text
-- or "x" and hex digits, here without trailing zero bytes (IBM MQ fills short ids with them). Message and correlation ids
-- are in it up to q.indexed; a search for one brings the index up to date first (matching/index_build).
--
--   "m"id NUL lid, "c"id NUL lid, "g"id NUL lid     message, correlation and group id, in delivery order
--   "n"id NUL sequence(9) offset(9) lid flags(1)    a group in its logical order; flags: 1 last in group, 2 segment,
--      [length of the body]                         4 last segment; the length only of segments
--
-- Others in q.index: "v" visible to peeks though locked (core/seek), "w" waiting readers by identifier (waiting/match_waiters),
-- "l" what arrived while others wait (matching/arrivals),
-- "y", "z" browse marks (matching/mark), "b", "h" groups with one active message (features/group_lock).
local index = {}

-- An identifier as it is compared; nothing if it is the none value, which is no identifier.
function index.id(text)
  if text and string.sub(text, 1, 1) == "x" then
    while string.sub(text, -2) == "00" do text = string.sub(text, 1, -3) end
  end
  if text and #text > 1 then return text end
end

-- The fields of a head that identify its message, and the length of its body. group_flags: the sum of 1 last in the group,
-- 2 segment, 4 last segment.
function index.fields(rec)
  local stop, found = string.find(rec, "\0", 15, true), {}
  for key, value in string.gmatch(string.sub(rec, 15, stop - 1), "\3([mcgnoz])([^\1\3]*)") do found[key] = value end
  return { message_id = index.id(found.m), correlation_id = index.id(found.c), group_id = index.id(found.g),
    sequence = tonumber(found.n or 1), offset = tonumber(found.o or 0), group_flags = tonumber(found.z or 0),
    body_bytes = #rec - stop }
end

function index.members(q, lid, rec, keys)
  keys = keys or record.keys(rec)
  local reached = lid <= q.indexed
  if not record.has_key(keys, "group_id") and not q.locks_groups then
    return reached and index.ids(lid, rec, keys) or {}
  end
  local f, members = index.fields(rec), {}
  if f.message_id and reached then members[1] = "m" .. f.message_id .. "\0" .. lid end
  if f.correlation_id and reached then members[#members + 1] = "c" .. f.correlation_id .. "\0" .. lid end
  if f.group_id then
    members[#members + 1] = "g" .. f.group_id .. "\0" .. lid
    local member = "n" .. f.group_id .. "\0" .. string.format("%09d%09d", f.sequence, f.offset) .. lid .. f.group_flags
    if f.group_flags > 1 then
      local size = record.has_large_body(rec) and redis.call("HSTRLEN", q.records, "^" .. lid) or f.body_bytes
      member = member .. size
    end
    members[#members + 1] = member
  elseif q.locks_groups then
    members[#members + 1] = "g\0" .. lid
  end
  return members
end

-- The members of a message without a group, as most are.
function index.ids(lid, rec, keys)
  local members = {}
  local id = record.has_key(keys, "message_id") and index.id(record.field(rec, "message_id"))
  if id then members[1] = "m" .. id .. "\0" .. lid end
  id = record.has_key(keys, "correlation_id") and index.id(record.field(rec, "correlation_id"))
  if id then members[#members + 1] = "c" .. id .. "\0" .. lid end
  return members
end

-- Adds a message to the index. With `later`, scores and members are appended to this list, for a ZADD of the caller.
function index.add(q, lid, rec, keys, later)
  local members, args = index.members(q, lid, rec, keys), later or {}
  for n = 1, #members do
    args[#args + 1] = "0"
    args[#args + 1] = members[n]
  end
  if not later and #args > 0 then redis.call("ZADD", q.index, unpack(args)) end
end

-- Removes a message from the index. With `later`, members are appended to this list, for a ZREM of the caller.
function index.drop(q, lid, rec, keys, later)
  local members = index.members(q, lid, rec, keys)
  if later then
    for n = 1, #members do later[#later + 1] = members[n] end
  elseif #members > 0 then
    redis.call("ZREM", q.index, unpack(members))
  end
end

-- Key and id of a filter that names one identifier and nothing else, as most do. Nothing for any other (matching/search).
function index.direct(q, text)
  local key, id = string.match(text, "^\3([mcg])([^%z\3]+)%z$")
  if key and not string.find(id, "^smq%-") and not q.options.group_exclusive then return key, id end
end

-- The identifier of a record that is in the index under a key.
function index.id_of(rec, key)
  local fields = index.fields(rec)
  return key == "m" and fields.message_id or key == "c" and fields.correlation_id or key == "g" and fields.group_id
end

-- Ids of available messages that carry this identifier (key m, c or g), behind `after`, in delivery order.
function index.range(q, key, id, after, count)
  local stem = key .. id .. "\0"
  local found = redis.call("ZRANGEBYLEX", q.index, "(" .. stem .. after, "(" .. key .. id .. "\1", "LIMIT", 0, count)
  for n = 1, #found do found[n] = string.sub(found[n], -16) end
  return found
end
