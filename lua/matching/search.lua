--- require "core/context"
--- require "core/position"
--- require "core/queue"
--- require "core/record"
--- require lazy "matching/filter"
--- require lazy "features/group"
--- require lazy "matching/index"
--- require lazy "matching/index_build"
--- require lazy "matching/mark"
--- require lazy "matching/candidates"
--- require lazy "features/group_lock"
--- require lazy "matching/arrivals"
--- require "core/message_state"
--- used by admin/bulk_progress, claim_match, claims/fill, core/seek, matching/arrivals, purge, receive and others
-- Finds the first messages in delivery order that a filter admits (IBM MQ, "Getting a particular message").
--
-- A call looks at no more than `most` records, and does not outlast the time for selectors (selector/selector). If it has found
-- nothing by then it returns the id behind which the client's next call goes on.
--
-- In this module `f` is a parsed filter (matching/filter). It has the field `taken_groups`, a set of the groups that this
-- search has taken a message of, if messages are to be taken from a queue that locks groups (features/group_lock). page,
-- next_page: candidates that are read at first, and then.
local search = { most = 1000, page = 64, next_page = 250 }

-- Returns up to `count` entries for a filter; the place to go on from, nil if the search is complete; and a status if one ends
-- the call.
--
--   text    the filter
--   from    the place where an earlier call stopped, "" at first
--   hint    the id of a message that probably matches, or nil
--   taking  true if the messages are to be locked or removed, not only read
--   seen    number of the last arrival that a waiting reader has seen (waiters.seen), or nil: only later ones are searched
function search.look(q, text, from, count, hint, taking, seen)
  index.load()
  filter.load()
  local f = filter.parse(text)
  if f.grouped or f.next_group then group.load() end
  if taking and q.locks_groups then
    f.taken_groups = {}
    group_lock.load()
  end
  if f.next_group then return search.next(q, f) end
  candidates.load()
  if candidates.needs_index(f) then
    index_build.load()
    if not index_build.some(q) then return {}, from ~= "" and from or f.after or queue.never end
  end
  local found, place = {}, nil
  if hint and count == 1 and redis.call("ZSCORE", q.available, hint) then
    local rec = redis.call("HGET", q.records, hint)
    if rec and search.admits(q, f, hint, rec) then found[1] = { id = hint, rec = rec } end
  end
  if seen and #found == 0 then
    arrivals.load()
    if arrivals.suffice(q, f, seen) then
      found, place = arrivals.look(q, f, seen, count)
      if #found == 0 then return found, place end
    end
  end
  if #found == 0 then found, place = search.scan(q, f, from ~= "" and from or f.after or "", count) end
  if #found == 0 then return found, place end
  return search.taken(q, f, found)
end

-- Returns the status that refuses a call with this filter, or nil. For calls that change something before they search: what
-- they change may make a message available, which the search passes over then instead of refusing the call.
function search.refuses(q, text)
  filter.load()
  index.load()
  group.load()
  local f = filter.parse(text)
  f.programs, context.search_decided = {}, true
  local id = group.at(q, f.next_group, f.next_sequence, f.next_offset)
  local rec = id and redis.call("HGET", q.records, id)
  if rec and not record.is_expired(rec, context.now) and not filter.test(f, id, rec) then
    return status.MATCH_OPTIONS
  end
end

-- As search.look, for a filter that names the next member of a group: only that one may be read, and it is an error if the
-- filter does not admit it. The selector was applied to the first member.
function search.next(q, f)
  local id = group.at(q, f.next_group, f.next_sequence, f.next_offset)
  local rec = id and redis.call("HGET", q.records, id)
  if not rec or record.is_expired(rec, context.now) or f.taken_groups and group_lock.busy(q, rec) then return {} end
  f.programs = {}
  if not filter.test(f, id, rec) then return {}, nil, not context.search_decided and status.MATCH_OPTIONS or nil end
  if f.complete_message and not group.admits(q, { complete_message = true }, index.fields(rec)) then return {} end
  return search.taken(q, f, { { id = id, rec = rec } })
end

-- Returns these entries with their states; or, if the filter asks for it, all segments of the message or all messages of
-- the group, as a list with `whole` set. Sets the marks that the filter asks for.
function search.taken(q, f, found)
  if f.complete_message or f.whole_group then
    local ids = group.together(q, f, index.fields(found[1].rec))
    if ids then
      local entries = position.read(q, ids)
      entries.whole = true
      search.mark(q, f, entries)
      return entries
    end
  end
  local ids = {}
  for n = 1, #found do ids[n] = found[n].id end
  local states = redis.call("HMGET", q.states, unpack(ids))
  for n = 1, #found do found[n].state = states[n] and message_state.parse(states[n]) end
  search.mark(q, f, found)
  return found
end

-- Sets and removes browse marks on these entries, as the filter asks for it.
function search.mark(q, f, found)
  if not f.marks then return end
  mark.load()
  for n = 1, #found do mark.apply(q, f, found[n].id) end
  mark.sweep(q, #found)
end

-- May this available message be read? An expired one may not; the timers of the queue remove it.
function search.admits(q, f, id, rec)
  if not filter.test(f, id, rec) or record.is_expired(rec, context.now) then return false end
  if f.grouped then
    local r = index.fields(rec)
    if r.group_id and not group.admits(q, f, r) then return false end
  end
  if f.unmarked then
    mark.load()
    if mark.seen(q, f, id) then return false end
  end
  return not f.taken_groups or search.take_group(q, f, rec)
end

-- Is the message's group free? Then it is taken by this search, which takes one message of each group.
function search.take_group(q, f, rec)
  local id = group_lock.group(rec)
  if id == "" then return true end
  if f.taken_groups[id] or group_lock.holder(q, id) then return false end
  f.taken_groups[id] = true
  return true
end

-- Tests candidates behind `from`. Returns up to `count` entries without states, and the place to go on from if there was no
-- time for all.
function search.scan(q, f, from, count)
  -- Where every candidate matches, no more are read than are wanted.
  local all_match = #f.programs == 0 and not f.grouped
    and (f.lookup_id or f.message_id or f.correlation_id or f.group_id or not f.named)
  local found, left, page = {}, search.most, all_match and count or search.page
  while left > 0 do
    page = math.min(page, left)
    local ids, more = candidates.ids(q, f, from, page)
    if #ids == 0 then return found end
    local recs = redis.call("HMGET", q.records, unpack(ids))
    for n = 1, #ids do
      from = ids[n]
      if recs[n] and search.admits(q, f, from, recs[n]) then
        found[#found + 1] = { id = from, rec = recs[n] }
        if #found == count then return found end
      end
      if filter.spent(f) or f.grouped and context.group_members > search.most then return found, from end
    end
    if not more then return found end
    left, page = left - #ids, search.next_page
  end
  return found, from
end
