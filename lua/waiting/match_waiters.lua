--- require "core/context"
--- require lazy "waiting/waiter_text"
--- require lazy "matching/filter"
--- require lazy "matching/search"
--- require lazy "features/group"
--- require lazy "matching/index"
--- require lazy "waiting/notify"
--- require lazy "matching/arrivals"
--- used by waiting/notify, waiting/waiters
-- Readers that wait for particular messages: those with a filter. They are asked before readers that take any message (IBM
-- MQ: MQGMO_WAIT), and only about messages that may match.
--
-- An indexed reader has a filter that names an identifier, as most do. An arriving message finds it by a member of q.index, whose
-- other members matching/index lists:
--
--   "w" <filter.key> NUL <member of q.waiters>     example: wcsabc NUL 12.3 D k0 - <filter>     waits for correlation id "abc"
--
-- The other readers with a filter, unindexed ones, are asked about each message. In q.waiters the scores of both are below 0,
-- where readers without a filter have their tickets: ticket + `indexed` and ticket + `unindexed`. A `member` here is one of
-- q.waiters (waiting/waiter_text), `criteria` its filter as matching/filter parses it.
--
-- Change together with: what a filter admits is decided in matching/search (search.admits) and in features/group for a search, and
-- here by the same functions; match_waiters.suits_as_next and match_waiters.completes follow search.next_member and group.admits.
-- filter.key (matching/filter) makes the keys of match_waiters.keys_of. A reader that is told in vain costs a call, one that is not
-- told waits until it polls. The doctor subtracts the scores (`waiters` in mqredis/operations/doctor/checks/sessions.py;
-- tests/contract/test_constants.py compares). Tests: tests/matching/test_notified_readers.py,
-- test_notified_exclusive_groups.py, test_rechecks.py.
--
-- indexed, unindexed   -2^50 and -2^51: what is added to the tickets
--
-- Readers beyond one of these limits are not asked, and find the message when they poll (docs/decisions/waiting.md).
--
-- most_unindexed       unindexed readers that are asked about a message
-- most_indexed         readers of one identifier that are asked about a message
-- most_members         messages of a group that one arrival may ask about
-- selector_time        microseconds that one call may spend on the selectors of readers, by estimate (selector/selector)
local match_waiters = { indexed = -1125899906842624, unindexed = -2251799813685248,
  most_unindexed = 256, most_indexed = 64, most_members = 64, selector_time = 40000 }

-- Registration ----------------------------------------------------------------------------------------------------------

-- Returns the text with which the members of q.index begin that name the readers waiting for a key (filter.key).
function match_waiters.index_stem(key)
  return "w" .. key .. "\0"
end

-- Registers a reader with this ticket number. Returns whether it was not registered before, and whether it is an indexed one.
function match_waiters.enlist(q, member, number, filter_text)
  local key, score = filter.key(filter_text), match_waiters.unindexed
  if key then
    redis.call("ZADD", q.index, 0, match_waiters.index_stem(key) .. member)
    score = match_waiters.indexed
  end
  return redis.call("ZADD", q.waiters, "NX", score + number, member) == 1, key ~= nil
end

-- Removes a reader. Returns 0 if it was not registered, else 1.
function match_waiters.remove(q, member, filter_text)
  local key = filter.key(filter_text)
  if key then redis.call("ZREM", q.index, match_waiters.index_stem(key) .. member) end
  local removed = redis.call("ZREM", q.waiters, member)
  if removed == 1 and not key and not match_waiters.unindexed_readers(q, 1)[1] then arrivals.forget(q) end
  return removed
end

-- Returns up to `count` unindexed readers, as members of q.waiters.
function match_waiters.unindexed_readers(q, count)
  return redis.call("ZRANGEBYSCORE", q.waiters, "-inf", string.format("(%d", match_waiters.indexed), "LIMIT", 0, count)
end

-- Offering --------------------------------------------------------------------------------------------------------------

-- Offers each of these messages to the readers that want it. Returns the ids of those that none of them took. `only` and
-- `behind` as of notify.offer.
function match_waiters.offer(q, ids, only, behind)
  -- What a search of this script knew of groups may have been taken since.
  context.groups = {}
  local unindexed = match_waiters.unindexed_readers(q, match_waiters.most_unindexed)
  if #unindexed > 0 and not behind then -- what they search when they poll; with `behind` it is noted already
    arrivals.note(q, ids)
  end
  -- What is known of the readers from message to message. criteria: by member; notified: set of the members that were;
  -- time_left: of match_waiters.selector_time.
  local readers = { only = only, behind = behind, unindexed = unindexed, criteria = {}, notified = {},
    time_left = match_waiters.selector_time }
  local not_taken = { nil }
  for n = 1, #ids do
    local rec = redis.call("HGET", q.records, ids[n])
    local is_taken = rec and match_waiters.offer_one(q, ids[n], rec, readers)
    if not is_taken then not_taken[#not_taken + 1] = ids[n] end
  end
  return not_taken
end

-- Offers a message to one reader after the other, until one takes it. Returns whether one does.
function match_waiters.offer_one(q, id, rec, readers)
  local members = match_waiters.candidates(q, id, rec, readers)
  for n = 1, #members do
    local member = members[n]
    local _, kind = waiter_text.parse(member)
    if not readers.notified[member] and (not readers.only or kind == readers.only) then
      local criteria = readers.criteria[member] or filter.parse(waiter_text.filter(member))
      readers.criteria[member] = criteria
      local suits = match_waiters.suits_in_time(q, criteria, id, rec, readers)
      if suits then
        readers.notified[member] = true
        if match_waiters.serve(q, member, criteria, id, suits) then return true end
      end
    end
  end
  return false
end

-- Returns the readers that a message may be for: those that wait for one of its identifiers, then the unindexed ones. If
-- readers.behind is set, those of them behind this one.
function match_waiters.candidates(q, id, rec, readers)
  local keys, found = match_waiters.keys_of(id, index.fields(rec)), {}
  for n = 1, #keys do
    local stem = match_waiters.index_stem(keys[n])
    local members = index.beginning_with(q, stem, match_waiters.most_indexed)
    for k = 1, #members do found[#found + 1] = string.sub(members[k], #stem + 1) end
  end
  for n = 1, #readers.unindexed do found[#found + 1] = readers.unindexed[n] end
  return readers.behind and match_waiters.after(found, readers.behind) or found
end

-- Returns the keys (filter.key) of the readers that wait for an identifier of this message. `fields`: index.fields of it.
function match_waiters.keys_of(id, fields)
  local letters = index.letters
  local keys = { "i" .. id, letters.message_id .. index.message_id(fields, id) }
  if fields.correlation_id then keys[#keys + 1] = letters.correlation_id .. fields.correlation_id end
  if fields.group_id then keys[#keys + 1] = letters.group_id .. fields.group_id end
  return keys
end

-- Returns the elements of a list that stand behind this one; none if it is not in the list.
function match_waiters.after(list, element)
  local rest, is_behind = { nil }, false
  for n = 1, #list do
    if is_behind then rest[#rest + 1] = list[n] end
    is_behind = is_behind or list[n] == element
  end
  return rest
end

-- Tells a reader of a message, notifies it and ends its registration. `suits`: as match_waiters.suits returns it. Returns whether
-- the reader takes the message: not a peek, not one whose wait ends with an error, not one that is not connected any more.
function match_waiters.serve(q, member, criteria, id, suits)
  local slot, kind, mode = waiter_text.parse(member)
  local peeks = kind == waiter_text.peeks
  if suits == "this" and peeks and not criteria.changes_marks then -- a copy is all that it returns
    notify.hand_copy(q, slot, id)
  elseif suits == "this" then
    waiter_text.hand_message(slot, id)
  else
    waiter_text.hand_part(slot, id)
  end
  local is_connected = notify.one(slot, mode)
  match_waiters.remove(q, member, waiter_text.filter(member))
  return is_connected and not peeks and suits ~= "error"
end

-- What suits a reader ---------------------------------------------------------------------------------------------------

-- As match_waiters.suits, for a reader with selectors only while readers.time_left lasts, which this takes from.
function match_waiters.suits_in_time(q, criteria, id, rec, readers)
  local before = filter.time_left(criteria)
  if before == 0 or criteria.next_group then return match_waiters.suits(q, criteria, id, rec) end
  if readers.time_left <= 0 then return end
  local suits = match_waiters.suits(q, criteria, id, rec)
  readers.time_left = readers.time_left - before + filter.time_left(criteria)
  return suits
end

-- Returns what an arriving message is to a reader with these criteria: "this", the message that it wants; "part", it may have this
-- one or another one of its group now; "error", it ends the wait, but is not taken; nil, the reader cannot use it.
function match_waiters.suits(q, criteria, id, rec)
  if criteria.next_group then return match_waiters.suits_as_next(q, criteria, id, rec) end
  local fields = criteria.needs_group and index.fields(rec)
  local needs_group = fields and fields.group_id
  if match_waiters.is_admitted(q, criteria, id, rec) then return needs_group and "part" or "this" end
  return needs_group and match_waiters.completes(q, criteria, fields) and "part" or nil
end

-- Would a search with these criteria find this message?
function match_waiters.is_admitted(q, criteria, id, rec)
  return (not criteria.after or id > criteria.after) and search.admits(q, criteria, id, rec)
end

-- As match_waiters.suits, for a reader inside a group, whom only the next message of the group suits. If the filter does not
-- admit that one, it is an error (search.next_member).
function match_waiters.suits_as_next(q, criteria, id, rec)
  local fields = index.fields(rec)
  if fields.group_id ~= criteria.next_group or fields.sequence ~= criteria.next_sequence then return end
  local suits = "this"
  if search.begins_complete_message(criteria) then
    -- Any of its segments may be the one that makes it whole; the reader begins with the one at its offset.
    if not group.logical_message(q, fields.group_id, fields.sequence) then return end
    id, suits = group.at(q, fields.group_id, fields.sequence, criteria.next_offset), "part"
  elseif fields.offset ~= criteria.next_offset then
    return
  end
  rec = id and redis.call("HGET", q.records, id)
  if not rec then return end
  return search.test_next_member(criteria, { id = id, rec = rec }) and suits or "error"
end

-- May the reader have another message of the group, now that this one is there? For criteria that look at the group, and `fields`
-- (index.fields) of the message that arrived. Of a large group that is not known, and true: a reader that is notified in vain
-- passes the notification on (waiters.wait).
function match_waiters.completes(q, criteria, fields)
  if criteria.group_id and criteria.group_id ~= fields.group_id then return false end
  -- Does it need all messages of the group, or only all segments of one message?
  local needs_all = criteria.all_messages or criteria.whole_group
  local is_complete
  if needs_all then
    is_complete = group.whole(q, fields.group_id)
  else
    is_complete = group.logical_message(q, fields.group_id, fields.sequence)
  end
  if not is_complete then return false end
  local ids = match_waiters.members_at_hand(q, criteria, fields, needs_all)
  if #ids == 0 then return false end
  if #ids > match_waiters.most_members then return true end
  local recs = redis.call("HMGET", q.records, unpack(ids))
  for n = 1, #ids do
    if recs[n] and match_waiters.is_admitted(q, criteria, ids[n], recs[n]) then return true end
  end
  return false
end

-- Returns the members of a complete group that the reader might get now, or members of a complete message. It reads a group from
-- its start if it asks for logical order, or gets the whole group at once.
function match_waiters.members_at_hand(q, criteria, fields, needs_all)
  local group_id, from_start = fields.group_id, criteria.logical_order or criteria.whole_group
  if from_start then
    if not needs_all and fields.sequence ~= 1 then return {} end
    return group.members(q, group_id, 1, 0)
  elseif needs_all then
    return index.range(q, index.letters.group_id, group_id, criteria.after or "", match_waiters.most_members + 1)
  end
  return group.members(q, group_id, fields.sequence, criteria.complete_message and 0 or nil)
end
