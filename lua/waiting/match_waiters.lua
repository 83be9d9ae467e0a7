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
-- Most filters name an identifier, under which an arriving message finds the reader: "w" <key> <id> NUL <member of q.waiters>
-- in q.index, where key and id are those of filter.key. All other readers with a filter are asked about each message.
--
-- In q.waiters the scores of readers with a filter are below 0: ticket + `indexed` if an identifier finds them, ticket +
-- 2 * `indexed` if none does. indexed: -2^50.
-- most: how many readers that no identifier finds are asked about a message; same: readers that one identifier finds.
-- members: messages of a group that one arrival may ask about.
local match_waiters = { indexed = -1125899906842624, most = 256, same = 64, members = 64 }

-- Registration ----------------------------------------------------------------------------------------------------------

-- Registers a reader. Returns false if it was registered already.
function match_waiters.enlist(q, member, number, filter_text)
  filter.load()
  local key = filter.key(filter_text)
  if key then redis.call("ZADD", q.index, 0, "w" .. key .. "\0" .. member) end
  return redis.call("ZADD", q.waiters, "NX", match_waiters.indexed * (key and 1 or 2) + tonumber(number), member) == 1
end

-- Removes a reader. Returns 0 if it was not registered, else 1.
function match_waiters.remove(q, member, filter_text)
  filter.load()
  local key = filter.key(filter_text)
  if key then redis.call("ZREM", q.index, "w" .. key .. "\0" .. member) end
  local gone = redis.call("ZREM", q.waiters, member)
  if gone == 1 and not key and not match_waiters.unindexed(q, 1)[1] then
    arrivals.load()
    arrivals.forget(q)
  end
  return gone
end

-- Returns up to `count` readers that no identifier finds.
function match_waiters.unindexed(q, count)
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
  local others = match_waiters.unindexed(q, match_waiters.most)
  if #others > 0 and not behind then
    arrivals.load()
    arrivals.note(q, ids)
  end
  -- parsed: filters by member; served: the members that were notified.
  local rest, parsed, served = {}, {}, {}
  for n = 1, #ids do
    local rec = redis.call("HGET", q.records, ids[n])
    local members = rec and match_waiters.candidates(q, ids[n], rec, others, behind) or {}
    if not match_waiters.offer_one(q, ids[n], rec, members, only, parsed, served) then rest[#rest + 1] = ids[n] end
  end
  return rest
end

-- Returns the readers that a message may be for: by its identifiers, then `others`. With `behind`, those behind this one.
function match_waiters.candidates(q, lid, rec, others, behind)
  local fields, found = index.fields(rec), {}
  local keys = { "i" .. lid, "m" .. (fields.message_id or "smq-" .. lid),
    fields.correlation_id and "c" .. fields.correlation_id, fields.group_id and "g" .. fields.group_id }
  for n = 1, 4 do
    if keys[n] then
      local stem = "w" .. keys[n] .. "\0"
      local members = redis.call("ZRANGEBYLEX", q.index, "[" .. stem, "(w" .. keys[n] .. "\1", "LIMIT", 0,
        match_waiters.same)
      for k = 1, #members do found[#found + 1] = string.sub(members[k], #stem + 1) end
    end
  end
  for n = 1, #others do found[#found + 1] = others[n] end
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

-- Offers a message to these readers, until one takes it. Returns whether one does.
function match_waiters.offer_one(q, lid, rec, members, only, parsed, served)
  for n = 1, #members do
    local member = members[n]
    local slot, kind, mode = waiter_text.parse(member)
    if not served[member] and (not only or kind == only) then
      local text, peeks = waiter_text.filter(member), kind == waiter_text.peeks
      local f = parsed[member] or filter.parse(text)
      parsed[member] = f
      local suits = match_waiters.suits(q, f, lid, rec)
      if suits then
        if suits == "this" and peeks and not match_waiters.asks_more(f) then
          notify.hand_copy(q, slot, lid)
        elseif suits == "this" then
          waiter_text.hand_message(slot, lid)
        else
          waiter_text.hand_part(slot, lid)
        end
        local taken = notify.one(slot, mode) and not peeks and suits ~= "error"
        served[member] = true
        match_waiters.remove(q, member, text)
        if taken then return true end
      end
    end
  end
  return false
end

-- What suits a reader ---------------------------------------------------------------------------------------------------

-- Returns what an arriving message is to a reader with this filter: "this", the message that it wants; "part", it may have this
-- one or another one of its group now; "error", it ends the wait, but is not taken; nil, the reader cannot use it.
function match_waiters.suits(q, f, lid, rec)
  if f.next_group then return match_waiters.suits_as_next(q, f, lid, rec) end
  local needs_group = f.needs_group and index.fields(rec).group_id
  if (not f.after or lid > f.after) and search.admits(q, f, lid, rec) then return needs_group and "part" or "this" end
  return needs_group and match_waiters.completes(q, f, rec) and "part" or nil
end

-- As match_waiters.suits, for a reader inside a group, whom only the next message of the group suits. If the filter does not
-- admit that one, it is an error (search.next).
function match_waiters.suits_as_next(q, f, lid, rec)
  local fields = index.fields(rec)
  if fields.group_id ~= f.next_group or fields.sequence ~= f.next_sequence then return end
  f.programs = {}
  local next, found = lid, "this"
  if f.complete_message then
    -- Any of its segments may be the one that makes it whole.
    if not group.logical_message(q, fields.group_id, fields.sequence) then return end
    next, found = group.at(q, fields.group_id, fields.sequence, f.next_offset), "part"
  elseif fields.offset ~= f.next_offset then
    return
  end
  rec = next and redis.call("HGET", q.records, next)
  return rec and (filter.test(f, next, rec) and found or "error") or nil
end

-- Does a peek with this filter change marks, or return more than the message that arrived? Then a copy is not enough.
function match_waiters.asks_more(f)
  return f.mark or f.mark_cooperative or f.complete_message or f.whole_group
end

-- May the reader have another message of the group, now that this one is there? For filters whose options look at the group.
-- Of a large group that is not known, and true: a reader that is notified in vain passes the notification on (waiters.wait).
function match_waiters.completes(q, f, rec)
  local fields = index.fields(rec)
  local whole, from_start = f.all_messages or f.whole_group, f.logical_order or f.whole_group
  if f.group_id and f.group_id ~= fields.group_id then return false end
  local complete
  if whole then
    complete = group.whole(q, fields.group_id)
  else
    complete = group.logical_message(q, fields.group_id, fields.sequence)
  end
  if not complete then return false end
  local ids
  if whole and not from_start then
    ids = index.range(q, index.letters.group_id, fields.group_id, f.after or "", match_waiters.members + 1)
  elseif whole or not from_start or fields.sequence == 1 then
    ids = group.members(q, fields.group_id, from_start and 1 or fields.sequence,
      (from_start or f.complete_message) and 0 or nil)
  end
  if not ids or #ids == 0 then return false end
  if #ids > match_waiters.members then return true end
  local recs = redis.call("HMGET", q.records, unpack(ids))
  for n = 1, #ids do
    if recs[n] and (not f.after or ids[n] > f.after) and search.admits(q, f, ids[n], recs[n]) then return true end
  end
  return false
end
