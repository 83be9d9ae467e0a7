--- require "core/chunked"
--- require lazy "matching/filter"
--- require lazy "matching/search"
--- used by matching/search, waiting/match_waiters, waiting/waiters
-- Notes which messages became available last, so that a reader which has searched the whole queue needs to search only
-- these when it looks again. They are noted only while a reader waits whose filter names no identifier. A message that arrives
-- finds the other readers by its identifiers (waiting/match_waiters), so they do not need this list.
--
-- The arrivals of a queue are numbered from 1 on; field "arrivals" of q.key has the number of the last one. The last `most` of
-- them are members of q.index (whose other members matching/index lists), in the order of their numbers:
--
--   "l" <number, 14 digits> <lookup id>     example: l00000000000042040000000000002a
--
-- A reader's ticket holds the number of the last arrival that it has seen (waiting/waiters). A new condition of filters that can
-- become true of a message which came earlier needs a line in arrivals.suffice. Tests: tests/matching/test_rechecks.py.
--
-- first, stop: limits of all members, as ZRANGEBYLEX takes them.
local arrivals = { most = 500, first = "[l", stop = "(l\255" }

-- Returns the text with which the member of an arrival begins.
function arrivals.stem(number)
  return string.format("l%014d", number)
end

-- Notes that these messages arrived.
function arrivals.note(q, ids)
  local newest = redis.call("HINCRBY", q.key, "arrivals", #ids)
  local before = newest - #ids
  local scores_members = {} -- score, member, score, member, ...
  for n = math.max(1, #ids - arrivals.most + 1), #ids do
    scores_members[#scores_members + 1] = "0"
    scores_members[#scores_members + 1] = arrivals.stem(before + n) .. ids[n]
  end
  redis.call("ZADD", q.index, unpack(scores_members))
  local first_kept = math.max(0, newest - arrivals.most + 1)
  redis.call("ZREMRANGEBYLEX", q.index, arrivals.first, "(" .. arrivals.stem(first_kept))
end

-- Returns the number of the last arrival, 0 if there was none.
function arrivals.newest(q)
  return tonumber(redis.call("HGET", q.key, "arrivals") or 0)
end

-- Removes all arrivals, since the last reader that needs them is gone. The numbers in tickets of former readers do no harm:
-- waiters.seen asks whether the reader is still registered.
function arrivals.forget(q)
  redis.call("ZREMRANGEBYLEX", q.index, arrivals.first, arrivals.stop)
end

-- May a reader with these criteria (matching/filter) that has seen the arrivals up to number `seen` look at the later ones only?
-- Not if some of these are not kept any more; nor if a message that came before may be admitted now.
function arrivals.suffice(q, criteria, seen)
  if criteria.grouped then return false end -- another message may have made its group whole
  if q.options.group_exclusive then return false end -- its group may not be locked any more
  if criteria.unmarked then return false end -- its co-operative mark may have ended
  return arrivals.newest(q) - seen <= arrivals.most
end

-- Searches the arrivals behind number `seen`. Returns up to `count` entries that the criteria admit, without states, in delivery
-- order; and, if the time for selectors was used up, the id of the last message that was looked at: if none was found, the next
-- call has it as its place to go on from, and searches the queue, not the arrivals.
function arrivals.look(q, criteria, seen, count)
  local ids, found = arrivals.ids(q, seen, criteria.after or ""), {}
  if not ids[1] then return found end
  local recs = chunked.read(q.records, ids)
  for n = 1, #ids do
    local id, rec = ids[n], recs[n]
    if rec and redis.call("ZSCORE", q.available, id) and search.admits(q, criteria, id, rec) then
      found[#found + 1] = { id = id, rec = rec }
      if #found == count then return found end
    end
    if filter.out_of_time(criteria) then return found, id end
  end
  return found
end

-- Returns the lookup ids of the arrivals behind number `seen` that are behind the id `after` in delivery order, in that order.
function arrivals.ids(q, seen, after)
  local members = redis.call("ZRANGEBYLEX", q.index, "[" .. arrivals.stem(seen + 1), arrivals.stop)
  -- What this script has made available (position.arrive) is noted only when it ends.
  for _, id in ipairs(q.arrived or {}) do members[#members + 1] = id end
  local ids, is_known = {}, {}
  for n = 1, #members do
    local id = string.sub(members[n], -16)
    if not is_known[id] and id > after then ids[#ids + 1] = id end
    is_known[id] = true
  end
  table.sort(ids)
  return ids
end
