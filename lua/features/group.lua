--- require "core/context"
--- require "matching/index"
--- used by matching/candidates, matching/search, waiting/match_waiters
-- Groups of messages, and messages in segments, as IBM MQ has them (MQGMO_ALL_MSGS_AVAILABLE and its kin). Tells from the
-- index alone, without reading a record, which messages a group has and whether one is missing.
--
-- A message of a group has a sequence number from 1 on; the last one is flagged. A message may come in segments, which
-- have its sequence number and an offset: the sum of the lengths of the segments before. The last segment is flagged. If
-- two messages have the same place in a group, the first one in delivery order counts. The form of the members is that of
-- matching/index, the options are those of matching/filter.
--
-- Change together with: what group.admits admits, a waiting reader must be told of as well (match_waiters.completes and
-- match_waiters.members_at_hand in waiting/match_waiters). Tests: tests/matching/test_groups.py,
-- test_segments.py and test_group_corners.py; the model that tests compare the broker with is tests/model/matching.py.
--
-- context.groups: by group id, what group.whole has found in this call; waiting/match_waiters forgets it before messages are
-- offered. context.group_members: how many members of the index this call has read; a search ends its call when they are too many
-- (matching/search). context.reset clears both.
--
-- page: members that one command reads; most: members that group.members returns
local group = { page = 500, most = 1000 }

-- Returns the lookup id of the message at a place in a group; nil if it is not there.
function group.at(q, group_id, sequence, offset)
  local found = index.beginning_with(q, index.place(group_id, sequence, offset), 1)[1]
  return found and index.lookup_id(found)
end

-- Returns the lookup ids of all messages with this sequence, and this offset if it is given, in delivery order; no more than
-- `most`.
function group.members(q, group_id, sequence, offset)
  local found = index.beginning_with(q, index.place(group_id, sequence, offset), group.most)
  for n = 1, #found do found[n] = index.lookup_id(found[n]) end
  table.sort(found) -- lookup ids ascend in delivery order (enqueue.ids); the index has offsets before them
  return found
end

-- Returns the lookup ids of a group from this sequence on, in logical order; with `only`, those of the message with this
-- sequence. nil if one is missing.
function group.collect(q, group_id, sequence, only)
  local from = "[" .. index.place(group_id, sequence)
  local stop = "(" .. index.place(group_id, only and sequence or nil) .. "\255"
  local ids, offset, is_last = {}, 0, false -- sequence and offset: the place of the message that comes next
  while true do
    local page = redis.call("ZRANGEBYLEX", q.index, from, stop, "LIMIT", 0, group.page)
    context.group_members = context.group_members + #page
    for n = 1, #page do
      local member = index.parse_member(page[n], group_id)
      if member.sequence == sequence and member.offset == offset then
        ids[#ids + 1] = member.lookup_id
        is_last = is_last or index.is_last_in_group(member.flags)
        if index.ends_message(member.flags) then
          if only or is_last then return ids end
          sequence, offset = sequence + 1, 0
        else
          offset = offset + member.length
        end
      elseif member.sequence > sequence then
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
  if not newest[1] then return end
  local last = index.parse_member(newest[1], group_id)
  local before = newest[2] and index.parse_member(newest[2], group_id)
  if before and before.sequence == last.sequence and before.offset == last.offset then
    -- Several messages have this place: the first one in delivery order counts.
    local first = index.beginning_with(q, index.place(group_id, last.sequence, last.offset), 1)[1]
    last = index.parse_member(first, group_id)
  end
  return index.is_last_in_group(last.flags)
end

-- May a message of a group be taken under the options of these criteria (matching/filter)? `fields`: index.fields of it.
function group.admits(q, criteria, fields)
  local is_first = fields.sequence == 1 and fields.offset == 0
  if (criteria.logical_order or criteria.whole_group) and not is_first then return false end
  if criteria.complete_message and fields.offset ~= 0 then return false end
  if (criteria.all_messages or criteria.whole_group) and not group.whole(q, fields.group_id) then return false end
  local takes_segments = criteria.all_segments or criteria.complete_message
  if not takes_segments or not index.is_segment(fields.group_flags) then return true end
  return group.logical_message(q, fields.group_id, fields.sequence) ~= nil
end

-- Returns the lookup ids that are taken together with a message; nil if it is taken alone. Arguments as of group.admits; the
-- criteria ask for a whole group or a complete message.
function group.together(q, criteria, fields)
  if not fields.group_id then return end
  if criteria.whole_group then return group.whole(q, fields.group_id) end
  if index.is_segment(fields.group_flags) then return group.logical_message(q, fields.group_id, fields.sequence) end
end
