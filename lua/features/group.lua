--- require "core/context"
--- require lazy "matching/index"
--- used by matching/candidates, matching/search, waiting/match_waiters
-- Groups and segments (IBM MQ: message groups, MQGMO_ALL_MSGS_AVAILABLE and its kin), from the index alone: members
-- "n" id NUL sequence(9) offset(9) lid(16) flags(1) [body length], see matching/index.
--
-- context.groups: whole groups that this call knows; context.group_members: how many members it has looked at, since a
-- search ends its call when they are too many (matching/search).
local group = {}

function group.digits(number)
  return string.format("%09d", number)
end

-- The first message in delivery order of a place in a group, or nothing.
function group.at(q, id, sequence, offset)
  local stem = "n" .. id .. "\0" .. group.digits(sequence) .. group.digits(offset)
  local found = redis.call("ZRANGEBYLEX", q.index, "[" .. stem, "(" .. stem .. "\255", "LIMIT", 0, 1)[1]
  return found and string.sub(found, #stem + 1, #stem + 16)
end

-- Ids of all messages with this sequence (and offset), in delivery order.
function group.members(q, id, sequence, offset)
  local stem = "n" .. id .. "\0" .. group.digits(sequence) .. (offset and group.digits(offset) or "")
  local found = redis.call("ZRANGEBYLEX", q.index, "[" .. stem, "(" .. stem .. "\255", "LIMIT", 0, 1000)
  local from = #id + 21
  for n = 1, #found do found[n] = string.sub(found[n], from, from + 15) end
  table.sort(found)
  return found
end

-- Walks a group from (sequence, 0) on: ids of its messages in logical order if nothing is missing, else nothing.
-- `one`: only the logical message with this sequence.
function group.walk(q, id, sequence, one)
  local base = "n" .. id .. "\0"
  local from = "[" .. base .. group.digits(sequence)
  local stop = "(" .. base .. (one and group.digits(sequence) or "") .. "\255"
  local ids, offset, last = {}, 0, false
  while true do
    local page = redis.call("ZRANGEBYLEX", q.index, from, stop, "LIMIT", 0, 500)
    context.group_members = context.group_members + #page
    for n = 1, #page do
      local member, at = page[n], #base + 1
      local s, o = tonumber(string.sub(member, at, at + 8)), tonumber(string.sub(member, at + 9, at + 17))
      local flags, size = tonumber(string.sub(member, at + 34, at + 34)), tonumber(string.sub(member, at + 35))
      if s == sequence and o == offset then
        ids[#ids + 1] = string.sub(member, at + 18, at + 33)
        last = last or flags % 2 == 1
        if flags < 2 or flags >= 4 then
          if one or last then return ids end
          sequence, offset = sequence + 1, 0
        else
          offset = offset + size
        end
      elseif s > sequence or (s == sequence and o > offset) then
        return
      end
    end
    if #page < 500 then return end
    from = "(" .. page[#page]
  end
end

-- The whole group: its ids in logical order, or nothing while one is missing. What ends it is said by its last place,
-- where of two messages the first one counts.
function group.whole(q, id)
  context.groups = context.groups or {}
  if context.groups[id] == nil then
    local newest = redis.call("ZREVRANGEBYLEX", q.index, "(n" .. id .. "\1", "[n" .. id .. "\0", "LIMIT", 0, 1)[1]
    if newest and not group.ends(newest, id) then
      local place = string.sub(newest, 1, #id + 20)
      newest = redis.call("ZRANGEBYLEX", q.index, "[" .. place, "(" .. place .. "\255", "LIMIT", 0, 1)[1]
    end
    context.groups[id] = newest and group.ends(newest, id) and group.walk(q, id, 1) or false
  end
  return context.groups[id] or nil
end

-- Is this member flagged as the last of its group?
function group.ends(member, id)
  return tonumber(string.sub(member, #id + 37, #id + 37)) % 2 == 1
end

-- May a message of a group be taken under the options of this filter? r: its fields (matching/index).
function group.admits(q, f, r)
  if (f.logical_order or f.whole_group) and (r.sequence ~= 1 or r.offset ~= 0) then return false end
  if f.complete_message and r.offset ~= 0 then return false end
  if (f.all_messages or f.whole_group) and not group.whole(q, r.group_id) then return false end
  if not (f.all_segments or f.complete_message) or r.group_flags < 2 then return true end
  return group.walk(q, r.group_id, r.sequence, true) ~= nil
end

-- The ids that are taken together with this one.
function group.together(q, f, r)
  if not r.group_id then return end
  if f.whole_group then return group.whole(q, r.group_id) end
  if f.complete_message and r.group_flags > 1 then return group.walk(q, r.group_id, r.sequence, true) end
end
