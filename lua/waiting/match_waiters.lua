--- require "core/context"
--- require "waiting/waiter_text"
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
-- An indexed reader has a filter that names an identifier, as most do. An arriving message finds it by a member of q.index:
--
--   "w" <filter.key> NUL <member of q.waiters>     example: wcsabc NUL 12.3 D k0 - <filter>     waits for correlation id "abc"
--
-- The other readers with a filter, unindexed ones, are asked about each message. In q.waiters the scores of both are below 0,
-- where readers without a filter have their tickets: ticket + `indexed` and ticket + `unindexed`.
--
-- indexed, unindexed   -2^50 and -2^51
-- most_unindexed       unindexed readers that are asked about a message
-- most_indexed         readers of one identifier that are asked about a message
-- most_members         messages of a group that one arrival may ask about
local match_waiters = { indexed = -1125899906842624, unindexed = -2251799813685248,
  most_unindexed = 256, most_indexed = 64, most_members = 64 }

-- Registration ----------------------------------------------------------------------------------------------------------

-- Returns the text with which the members of q.index begin that name the readers waiting for a key (filter.key).
function match_waiters.index_stem(key)
  return "w" .. key .. "\0"
end

-- Registers a reader with this ticket number. Returns false if it was registered already.
function match_waiters.enlist(q, member, number, filter_text)
  filter.load()
  local key, score = filter.key(filter_text), match_waiters.unindexed
  if key then
    redis.call("ZADD", q.index, 0, match_waiters.index_stem(key) .. member)
    score = match_waiters.indexed
  end
  return redis.call("ZADD", q.waiters, "NX", score + number, member) == 1
end

-- Removes a reader. Returns 0 if it was not registered, else 1.
function match_waiters.remove(q, member, filter_text)
  filter.load()
  local key = filter.key(filter_text)
  if key then redis.call("ZREM", q.index, match_waiters.index_stem(key) .. member) end
  local gone = redis.call("ZREM", q.waiters, member)
  if gone == 1 and not key and not match_waiters.unindexed_readers(q, 1)[1] then
    arrivals.load()
    arrivals.forget(q)
  end
  return gone
end

-- Returns up to `count` unindexed readers, as members of q.waiters.
function match_waiters.unindexed_readers(q, count)
  return redis.call("ZRANGEBYSCORE", q.waiters, "-inf", string.format("(%d", match_waiters.indexed), "LIMIT", 0, count)
end

-- Offering --------------------------------------------------------------------------------------------------------------

-- Offers each of these messages to the readers that want it. Returns the ids of those that none of them took. `only` and
-- `behind` as of notify.offer.
function match_waiters.offer(q, ids, only, behind)
  filter.load()
  search.load()
  index.load()
  group.load()
  -- What a search of this script knew of groups may have been taken since.
  context.groups = {}
  local unindexed = match_waiters.unindexed_readers(q, match_waiters.most_unindexed)
  if #unindexed > 0 and not behind then
    arrivals.load()
    arrivals.note(q, ids)
  end
  -- left: ids that no reader took; filters: parsed, by member; notified: set of members.
  local left, filters, notified = { nil }, {}, {}
  for n = 1, #ids do
    local rec = redis.call("HGET", q.records, ids[n])
    local members = rec and match_waiters.candidates(q, ids[n], rec, unindexed, behind) or {}
    if not match_waiters.offer_one(q, ids[n], rec, members, only, filters, notified) then left[#left + 1] = ids[n] end
  end
  return left
end

-- Returns the readers that a message may be for: those that wait for one of its identifiers, then the unindexed ones. With
-- `behind`, those of them behind this one.
function match_waiters.candidates(q, id, rec, unindexed, behind)
  local fields, found = index.fields(rec), {}
  local keys = { "i" .. id, "m" .. (fields.message_id or "smq-" .. id),
    fields.correlation_id and "c" .. fields.correlation_id, fields.group_id and "g" .. fields.group_id }
  for n = 1, 4 do
    if keys[n] then
      local stem = match_waiters.index_stem(keys[n])
      local members = redis.call("ZRANGEBYLEX", q.index, "[" .. stem, "(" .. stem .. "\255", "LIMIT", 0,
        match_waiters.most_indexed)
      for k = 1, #members do found[#found + 1] = string.sub(members[k], #stem + 1) end
    end
  end
  for n = 1, #unindexed do found[#found + 1] = unindexed[n] end
  return behind and match_waiters.after(found, behind) or found
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

-- Offers a message to these readers, until one takes it. Returns whether one does. `filters`, `notified`: what
-- match_waiters.offer keeps from message to message.
function match_waiters.offer_one(q, id, rec, members, only, filters, notified)
  for n = 1, #members do
    local member = members[n]
    local _, kind = waiter_text.parse(member)
    if not notified[member] and (not only or kind == only) then
      filters[member] = filters[member] or filter.parse(waiter_text.filter(member))
      local suits = match_waiters.suits(q, filters[member], id, rec)
      if suits then
        notified[member] = true
        if match_waiters.serve(q, member, filters[member], id, suits) then return true end
      end
    end
  end
  return false
end

-- Tells a reader of a message, notifies it and ends its registration. `suits`: as match_waiters.suits returns it. Returns whether
-- the reader takes the message: not a peek, not one whose wait ends with an error, not one that is not connected any more.
function match_waiters.serve(q, member, f, id, suits)
  local slot, kind, mode = waiter_text.parse(member)
  local peeks = kind == waiter_text.peeks
  if suits == "this" and peeks and not match_waiters.asks_more(f) then
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

-- Returns what an arriving message is to a reader with this filter: "this", the message that it wants; "part", it may have this
-- one or another one of its group now; "error", it ends the wait, but is not taken; nil, the reader cannot use it.
function match_waiters.suits(q, f, id, rec)
  if f.next_group then return match_waiters.suits_as_next(q, f, id, rec) end
  local needs_group = f.needs_group and index.fields(rec).group_id
  if (not f.after or id > f.after) and search.admits(q, f, id, rec) then return needs_group and "part" or "this" end
  return needs_group and match_waiters.completes(q, f, rec) and "part" or nil
end

-- As match_waiters.suits, for a reader inside a group, whom only the next message of the group suits. If the filter does not
-- admit that one, it is an error (search.next).
function match_waiters.suits_as_next(q, f, id, rec)
  local fields = index.fields(rec)
  if fields.group_id ~= f.next_group or fields.sequence ~= f.next_sequence then return end
  f.programs = {}
  local next_id, suits = id, "this"
  if f.complete_message then
    -- Any of its segments may be the one that makes it whole.
    if not group.logical_message(q, fields.group_id, fields.sequence) then return end
    next_id, suits = group.at(q, fields.group_id, fields.sequence, f.next_offset), "part"
  elseif fields.offset ~= f.next_offset then
    return
  end
  rec = next_id and redis.call("HGET", q.records, next_id)
  if not rec then return end
  return filter.test(f, next_id, rec) and suits or "error"
end

-- Does a peek with this filter change marks, or return more than the message that arrived? Then a copy is not enough.
function match_waiters.asks_more(f)
  return f.mark or f.mark_cooperative or f.complete_message or f.whole_group
end

-- May the reader have another message of the group, now that this one is there? For filters whose options look at the group.
-- Of a large group that is not known, and true: a reader that is notified in vain passes the notification on (waiters.wait).
function match_waiters.completes(q, f, rec)
  local fields = index.fields(rec)
  if f.group_id and f.group_id ~= fields.group_id then return false end
  -- Does the filter want the group to be complete, or the message of segments alone? Does it read the group from its start?
  local wants_group, from_start = f.all_messages or f.whole_group, f.logical_order or f.whole_group
  local is_complete
  if wants_group then
    is_complete = group.whole(q, fields.group_id)
  else
    is_complete = group.logical_message(q, fields.group_id, fields.sequence)
  end
  if not is_complete then return false end
  -- The members that the reader might get now.
  local ids
  if wants_group and not from_start then
    ids = index.range(q, index.letters.group_id, fields.group_id, f.after or "", match_waiters.most_members + 1)
  elseif wants_group or not from_start or fields.sequence == 1 then
    ids = group.members(q, fields.group_id, from_start and 1 or fields.sequence,
      (from_start or f.complete_message) and 0 or nil)
  end
  if not ids or #ids == 0 then return false end
  if #ids > match_waiters.most_members then return true end
  local recs = redis.call("HMGET", q.records, unpack(ids))
  for n = 1, #ids do
    if recs[n] and (not f.after or ids[n] > f.after) and search.admits(q, f, ids[n], recs[n]) then return true end
  end
  return false
end
