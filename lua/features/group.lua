--- require "core/context"
--- require lazy "matching/index"
--- used by matching/candidates, matching/search, waiting/match_waiters
-- Groups of messages, and messages in segments, as IBM MQ has them (MQGMO_ALL_MSGS_AVAILABLE and its kin). Tells from the
-- index alone, without reading a record, which messages a group has and whether one is missing.
--
-- A message of a group has a sequence number from 1 on; the last one is flagged. A message may come in segments, which
-- have its sequence number and an offset: the sum of the lengths of the segments before. The last segment is flagged. If
-- two messages have the same place in a group, the first one in delivery order counts.
--
-- context.groups: by group id, what group.whole has found in this call. context.group_members: how many members of the
-- index this call has read; a search ends its call when they are too many (matching/search).
local group = { page = 500, most = 1000 }

-- Returns the lookup id of the message at a place in a group; nil if it is not there.
function group.at(q, group_id, sequence, offset)
  local place = index.place(group_id, sequence, offset)
  local found = redis.call("ZRANGEBYLEX", q.index, "[" .. place, "(" .. place .. "\255", "LIMIT", 0, 1)[1]
  if not found then return end
  local _, _, id = index.parse_member(found, group_id)
  return id
end

-- Returns the lookup ids of all messages with this sequence, and this offset if it is given, in delivery order; no more than
-- `most`.
function group.members(q, group_id, sequence, offset)
  local place = index.place(group_id, sequence, offset)
  local found = redis.call("ZRANGEBYLEX", q.index, "[" .. place, "(" .. place .. "\255", "LIMIT", 0, group.most)
  for n = 1, #found do
    local _, _, id = index.parse_member(found[n], group_id)
    found[n] = id
  end
  table.sort(found)
  return found
end

-- Returns the lookup ids of a group from this sequence on, in logical order; with `only`, those of the message with this
-- sequence. nil if one is missing.
function group.collect(q, group_id, sequence, only)
  local from = "[" .. index.place(group_id, sequence)
  local stop = "(" .. index.place(group_id, only and sequence or nil) .. "\255"
  local ids, offset, last = {}, 0, false
  while true do
    local page = redis.call("ZRANGEBYLEX", q.index, from, stop, "LIMIT", 0, group.page)
    context.group_members = context.group_members + #page
    for n = 1, #page do
      local s, o, id, flags, length = index.parse_member(page[n], group_id)
      if s == sequence and o == offset then
        ids[#ids + 1] = id
        last = last or index.is_last_in_group(flags)
        if index.ends_message(flags) then
          if only or last then return ids end
          sequence, offset = sequence + 1, 0
        else
          offset = offset + length
        end
      elseif s > sequence or (s == sequence and o > offset) then
        return -- what comes next in the index is not what comes next in the group
      end
    end
    if #page < group.page then return end
    from = "(" .. page[#page]
  end
end

-- Returns the lookup ids of the message with this sequence, one for each segment, in order; nil if a segment is missing.
function group.logical_message(q, group_id, sequence)
  return group.collect(q, group_id, sequence, true)
end

-- Returns the lookup ids of a group in logical order; nil while a message is missing. Asks the index once in a call.
function group.whole(q, group_id)
  context.groups = context.groups or {}
  if context.groups[group_id] == nil then
    context.groups[group_id] = group.has_end(q, group_id) and group.collect(q, group_id, 1) or false
  end
  return context.groups[group_id] or nil
end

-- Is the message at the last place of the group flagged as its end? Without one the group need not be read.
function group.has_end(q, group_id)
  local place = index.place(group_id)
  local newest = redis.call("ZREVRANGEBYLEX", q.index, "(" .. place .. "\255", "[" .. place, "LIMIT", 0, 2)
  if not newest[1] then return false end
  local sequence, offset, _, flags = index.parse_member(newest[1], group_id)
  local other_sequence, other_offset = 0, 0
  if newest[2] then other_sequence, other_offset = index.parse_member(newest[2], group_id) end
  if other_sequence == sequence and other_offset == offset then
    -- Several messages have this place: the first one in delivery order counts.
    place = index.place(group_id, sequence, offset)
    local first = redis.call("ZRANGEBYLEX", q.index, "[" .. place, "(" .. place .. "\255", "LIMIT", 0, 1)[1]
    _, _, _, flags = index.parse_member(first, group_id)
  end
  return index.is_last_in_group(flags)
end

-- May a message of a group be taken under the options of this filter (matching/filter)? `fields`: index.fields of it.
function group.admits(q, f, fields)
  if (f.logical_order or f.whole_group) and (fields.sequence ~= 1 or fields.offset ~= 0) then return false end
  if f.complete_message and fields.offset ~= 0 then return false end
  if (f.all_messages or f.whole_group) and not group.whole(q, fields.group_id) then return false end
  if not (f.all_segments or f.complete_message) or not index.is_segment(fields.group_flags) then return true end
  return group.logical_message(q, fields.group_id, fields.sequence) ~= nil
end

-- Returns the lookup ids that are taken together with a message; nil if it is taken alone. `fields` as of group.admits.
function group.together(q, f, fields)
  if not fields.group_id then return end
  if f.whole_group then return group.whole(q, fields.group_id) end
  if f.complete_message and index.is_segment(fields.group_flags) then
    return group.logical_message(q, fields.group_id, fields.sequence)
  end
end
