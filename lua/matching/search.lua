--- require "core/context"
--- require "core/position"
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
--- used by bulk, claim_match, claims/fill, matching/arrivals, peek, purge, receive, waiting/match_waiters
-- Finds the first messages in delivery order that a filter admits (IBM MQ, "Getting a particular message"): by the index of
-- identifiers if the filter names one, else by a scan. Used by receive.lua, peek.lua, purge.lua and the claims. One call
-- looks at no more than `search.most` records.
local search = { most = 1000 }

-- Up to `count` entries for a filter. `from`: the place where an earlier call stopped, "" at first. `hint`: the id of a
-- message that probably matches. `taking`: the messages are to be locked or removed, not only read. `seen`: a waiting reader
-- that has searched the queue needs to search only what arrived behind this number (waiters.seen). Returns the entries; the
-- place to go on from, nil if the search is complete; and a status that ends the call.
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
    -- Before its first id no id stands.
    if not index_build.some(q) then return {}, from ~= "" and from or f.after or "0" end
  end
  local found, place = {}, nil
  if hint and count == 1 and redis.call("ZSCORE", q.available, hint) then
    local rec = redis.call("HGET", q.records, hint)
    if rec and search.admits(q, f, hint, rec) then found[1] = { lid = hint, rec = rec } end
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

-- The status that refuses a call with this filter, or nothing. For calls that change something before they search: a
-- message that this makes available may be passed over, but refuses nothing any more.
function search.refuses(q, text)
  filter.load()
  index.load()
  group.load()
  local f = filter.parse(text)
  f.programs, context.search_decided = {}, true
  local lid = group.at(q, f.next_group, f.next_sequence, f.next_offset)
  local rec = lid and redis.call("HGET", q.records, lid)
  if rec and not record.is_expired(rec, context.now) and not filter.test(f, lid, rec) then
    return status.MATCH_OPTIONS
  end
end

-- Inside a group only its next member may be read, and a filter that does not admit it is an error. The selector was
-- applied to the first member.
function search.next(q, f)
  local lid = group.at(q, f.next_group, f.next_sequence, f.next_offset)
  local rec = lid and redis.call("HGET", q.records, lid)
  if not rec or record.is_expired(rec, context.now) or f.taken_groups and group_lock.busy(q, rec) then return {} end
  f.programs = {}
  if not filter.test(f, lid, rec) then return {}, nil, not context.search_decided and status.MATCH_OPTIONS or nil end
  if f.complete_message and not group.admits(q, { complete_message = true }, index.fields(rec)) then return {} end
  return search.taken(q, f, { { lid = lid, rec = rec } })
end

-- Completes the entries with their states, and with the rest of a message of segments or of a group.
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
  for n = 1, #found do ids[n] = found[n].lid end
  local states = redis.call("HMGET", q.states, unpack(ids))
  for n = 1, #found do found[n].st = states[n] and message_state.parse(states[n]) end
  search.mark(q, f, found)
  return found
end

function search.mark(q, f, found)
  if not f.marks then return end
  mark.load()
  for n = 1, #found do mark.apply(q, f, found[n].lid) end
  mark.sweep(q, #found)
end

-- May this available message be read? Expired messages are left to the timers of the queue.
function search.admits(q, f, lid, rec)
  if not filter.test(f, lid, rec) or record.is_expired(rec, context.now) then return false end
  if f.grouped then
    local r = index.fields(rec)
    if r.group_id and not group.admits(q, f, r) then return false end
  end
  if f.unmarked then
    mark.load()
    if mark.seen(q, f, lid) then return false end
  end
  return not f.taken_groups or search.turn(q, f, rec)
end

-- Is the message's group free? A call takes one message of each group.
function search.turn(q, f, rec)
  local id = group_lock.group(rec)
  if id == "" then return true end
  if f.taken_groups[id] or group_lock.holder(q, id) then return false end
  f.taken_groups[id] = true
  return true
end

function search.scan(q, f, from, count)
  -- Where every candidate matches, no more are read than are wanted.
  local sure = #f.programs == 0 and not f.grouped
    and (f.lookup_id or f.message_id or f.correlation_id or f.group_id or not f.named)
  local found, left, page = {}, search.most, sure and count or 64
  while left > 0 do
    page = math.min(page, left)
    local ids, more = candidates.ids(q, f, from, page)
    if #ids == 0 then return found end
    local recs = redis.call("HMGET", q.records, unpack(ids))
    for n = 1, #ids do
      from = ids[n]
      if recs[n] and search.admits(q, f, from, recs[n]) then
        found[#found + 1] = { lid = from, rec = recs[n] }
        if #found == count then return found end
      end
      if filter.spent(f) or f.grouped and context.group_members > search.most then return found, from end
    end
    if not more then return found end
    left, page = left - #ids, 250
  end
  return found, from
end
