--- require "core/context"
--- require "core/position"
--- require "core/queue"
--- require lazy "core/record"
--- require lazy "matching/filter"
--- require lazy "features/group"
--- require lazy "matching/index"
--- require lazy "matching/index_build"
--- require lazy "matching/mark"
--- require lazy "matching/candidates"
--- require lazy "features/group_lock"
--- require lazy "matching/arrivals"
--- used by admin/bulk_progress, claim_match, claims/fill, matching/arrivals, peek, purge, receive, waiting/match_waiters
-- Finds the first messages in delivery order that a filter admits (IBM MQ, "Getting a particular message").
--
-- A call looks at no more than `most` records, and does not outlast the time for selectors (selector/selector). If it has found
-- nothing by then it returns the id behind which the client's next call goes on.
--
-- `criteria` is a filter as matching/filter parses it. This module sets one field more: taken_groups, the set of the groups that
-- the search has taken a message of; nil if it takes nothing, or the queue does not lock groups (features/group_lock).
--
-- Change together with: a new condition of a filter stands in search.admits, or in filter.test if the record alone tells
-- (matching/filter says what else it takes). waiting/match_waiters decides for arriving messages by search.admits and
-- search.test_next_member. What search.look returns, `continue_from` above all, is the place of receive.lua, peek.lua and others in
-- their next call (CONTINUE). Tests: tests/matching, and at random tests/property/test_matching.py.
--
-- page, next_page: candidates that are read at first, and then.
local search = { most = 1000, page = 64, next_page = 250 }

-- Searches for messages, and may write: the index, and marks. `from`: the id behind which an earlier call has stopped, "" at first.
-- `reader`: nil, or a table of what is known of the reader:
--
--   takes        true if the messages are to be locked or removed, not only read
--   notified_id  the id of a message that probably matches, since the reader was notified of it; or nil
--   seen         number of the last arrival that it has seen (waiters.seen): only later ones are searched; nil or false: all
--
-- Returns three values:
--
--   entries        up to `count` messages (core/position); `whole` is set if they belong together and are all or none
--   continue_from  if there are none: the id behind which the next call goes on, nil if the search is complete
--   code           a status that refuses the call, else nil
function search.look(q, filter_text, from, count, reader)
  reader = reader or {}
  local criteria = search.open(q, filter_text, reader.takes)
  if criteria.next_group then return search.next_member(q, criteria) end
  local place = from ~= "" and from or criteria.after or ""
  local found, continue_from = search.notified(q, criteria, count, reader.notified_id), nil
  if not found then
    if candidates.needs_index(criteria) and not index_build.some(q) then
      return {}, place ~= "" and place or queue.never -- the next call adds more to the index
    end
    found, continue_from = search.find(q, criteria, place, count, reader.seen)
  end
  if not found[1] then return found, continue_from end
  return search.finish(q, criteria, found)
end

-- Does so for callers that go through all messages page by page: returns entries, and the id behind which the next page begins, nil
-- if there is none. What was found does not say whether there is more, so a page with entries always has a next one.
function search.read_page(q, filter_text, from, count, reader)
  local entries, continue_from = search.look(q, filter_text, from, count, reader)
  return entries, entries[1] and entries[#entries].id or continue_from
end

-- Returns the criteria of a filter.
function search.open(q, filter_text, takes)
  local criteria = filter.parse(filter_text)
  if takes and q.locks_groups then criteria.taken_groups = {} end
  return criteria
end

-- Returns the status that refuses a call with this filter, or nil. For calls that change something before they search: what
-- they change may make a message available, which the search passes over then instead of refusing the call.
function search.refuses(q, filter_text)
  if not string.find(filter_text, "\3G", 1, true) then return end -- next_group of matching/filter: few filters name one
  local criteria = filter.parse(filter_text)
  context.search_decided = true -- for search.next_member
  local next_message = search.read_next_member(q, criteria)
  if next_message and not search.test_next_member(criteria, next_message) then return status.MATCH_OPTIONS end
end

-- The next member of a group --------------------------------------------------------------------------------------------

-- As search.look, for a filter that names the next member of a group: only that one may be read, and it is an error if the
-- filter does not admit it.
function search.next_member(q, criteria)
  local entry = search.read_next_member(q, criteria)
  if not entry or criteria.taken_groups and group_lock.busy(q, entry.rec) then return {} end
  if not search.test_next_member(criteria, entry) then
    return {}, nil, not context.search_decided and status.MATCH_OPTIONS or nil
  end
  if search.is_marked(q, criteria, entry.id) then return {} end
  if search.begins_complete_message(criteria) then
    -- Not the criteria: their logical order admits only the first member.
    local only_complete = { complete_message = criteria.complete_message, all_segments = true }
    if not group.admits(q, only_complete, index.fields(entry.rec)) then return {} end
  end
  return search.finish(q, criteria, { entry })
end

-- Must all segments of the next member be there? If they are not joined, only its first segment asks for the others, as
-- only the first member of a group asks for all of them (MQGMO_ALL_SEGMENTS_AVAILABLE has no effect inside a message).
function search.begins_complete_message(criteria)
  return criteria.complete_message or criteria.all_segments and criteria.next_offset == 0
end

-- Returns the next member of the group as an entry without a state; nil if it is not there.
function search.read_next_member(q, criteria)
  local id = group.at(q, criteria.next_group, criteria.next_sequence, criteria.next_offset)
  local rec = id and redis.call("HGET", q.records, id)
  if rec and not record.is_expired(rec, context.now) then return { id = id, rec = rec } end
end

-- Does the filter admit the next member? The selectors do not count, since they were applied to the first member.
function search.test_next_member(criteria, entry)
  criteria.selectors = {}
  return filter.test(criteria, entry.id, entry.rec)
end

-- The first messages that match -----------------------------------------------------------------------------------------

-- Returns the message that the reader was notified of as a list with an entry without a state; nil if it is not available, does not
-- match, or more than one message is wanted. It need not be in the index, so a reader that waits does not have the index built.
function search.notified(q, criteria, count, id)
  if not id or count ~= 1 or not redis.call("ZSCORE", q.available, id) then return end
  local rec = redis.call("HGET", q.records, id)
  if rec and search.admits(q, criteria, id, rec) then return { { id = id, rec = rec } } end
end

-- Returns up to `count` entries without states, and continue_from as search.look does: what has arrived since number `seen`, if
-- that is enough; or messages behind `place` in the queue.
function search.find(q, criteria, place, count, seen)
  if seen and arrivals.suffice(q, criteria, seen) then return arrivals.look(q, criteria, seen, count) end
  return search.scan(q, criteria, place, count)
end

-- Does so for the queue: tests one candidate after the other.
function search.scan(q, criteria, place, count)
  -- Where every candidate matches, no more are read than are wanted.
  local page = search.matches_all_candidates(criteria) and count or search.page
  local found, left = {}, search.most
  while left > 0 do
    page = math.min(page, left)
    local ids, more = candidates.page(q, criteria, place, page)
    if #ids == 0 then return found end
    local recs = redis.call("HMGET", q.records, unpack(ids))
    for n = 1, #ids do
      place = ids[n]
      if recs[n] and search.admits(q, criteria, place, recs[n]) then
        found[#found + 1] = { id = place, rec = recs[n] }
        if #found == count then return found end
      end
      if search.must_pause(criteria) then return found, place end
    end
    if not more then return found end
    left, page = left - #ids, search.next_page
  end
  return found, place
end

-- Does every candidate match, or nearly every one, since the filter asks for no more than identifiers or marks?
function search.matches_all_candidates(criteria)
  if #criteria.selectors > 0 or criteria.grouped then return false end
  return criteria.message_id or criteria.correlation_id or criteria.group_id or not criteria.names_message
end

-- Has the search used up the time for selectors, or read as many members of groups as one call may?
function search.must_pause(criteria)
  return filter.out_of_time(criteria) or criteria.grouped and context.group_members > search.most
end

-- May this available message be read? An expired one may not; the timers of the queue remove it.
function search.admits(q, criteria, id, rec)
  if not filter.test(criteria, id, rec) or record.is_expired(rec, context.now) then return false end
  if criteria.grouped then
    local fields = index.fields(rec)
    if fields.group_id and not group.admits(q, criteria, fields) then return false end
  end
  if search.is_marked(q, criteria, id) then return false end
  return not criteria.taken_groups or search.take_group(q, criteria, rec)
end

-- Does the filter ask for unmarked messages, and is this one marked?
function search.is_marked(q, criteria, id)
  if not criteria.unmarked then return false end
  return mark.seen(q, criteria, id)
end

-- Is the message's group free? Then it is taken by this search, which takes one message of each group.
function search.take_group(q, criteria, rec)
  local group_id = group_lock.group(rec)
  if group_id == "" then return true end
  if criteria.taken_groups[group_id] or group_lock.holder(q, group_id) then return false end
  criteria.taken_groups[group_id] = true
  return true
end

-- What was found --------------------------------------------------------------------------------------------------------

-- Returns these entries with their states; or, if the filter asks for it, all segments of the message or all messages of
-- the group, as a list with `whole` set. Sets the marks that the filter asks for.
function search.finish(q, criteria, found)
  local ids
  if criteria.complete_message or criteria.whole_group then
    ids = group.together(q, criteria, index.fields(found[1].rec))
  end
  if ids then
    found = position.read(q, ids)
    found.whole = true
  else
    search.add_states(q, found)
  end
  if criteria.changes_marks then
    for n = 1, #found do mark.apply(q, criteria, found[n].id) end
    mark.sweep(q, #found)
  end
  return found
end

-- Reads the states of these entries.
function search.add_states(q, found)
  local ids = {}
  for n = 1, #found do ids[n] = found[n].id end
  local states = position.states(q, ids)
  for n = 1, #found do found[n].state = states[n] or nil end
end
