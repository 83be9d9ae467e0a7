--- require "core/context"
--- require "core/chunked"
--- require lazy "matching/filter"
--- require lazy "matching/search"
--- used by matching/search, waiting/match_waiters, waiting/waiters
-- Notes which messages became available last, so that a reader which has searched the whole queue needs to search only
-- these when it looks again. They are noted only while a reader waits whose filter names no identifier. A message that arrives
-- finds the other readers by its identifiers (waiting/match_waiters), so they do not need this list.
--
-- Stored in q.index, the last `most` of them, as members "l" <number, 14 digits> <lookup id>. Field "arrivals" of q.key counts
-- them. A reader's ticket holds the number of the last arrival that it has seen (waiting/waiters).
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
  local args = {}
  for n = math.max(1, #ids - arrivals.most + 1), #ids do
    args[#args + 1] = "0"
    args[#args + 1] = arrivals.stem(newest - #ids + n) .. ids[n]
  end
  redis.call("ZADD", q.index, unpack(args))
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

-- May a reader that has seen the arrivals up to number `seen` look at the later ones only? Not if some of these are not
-- kept any more; nor if a message that came before may be admitted now.
function arrivals.suffice(q, f, seen)
  if f.grouped then return false end -- another message may have made its group whole
  if q.options.group_exclusive then return false end -- its group may not be locked any more
  if f.unmarked then return false end -- its co-operative mark may have ended
  return arrivals.newest(q) - seen <= arrivals.most
end

-- Returns up to `count` entries of arrivals behind number `seen` that the filter admits, in delivery order. If the time for
-- selectors was used up before one was found, it also returns the id of the last one that was looked at: the next call has
-- it as its cursor, and searches the queue, not the arrivals, from there.
function arrivals.look(q, f, seen, count)
  local members = redis.call("ZRANGEBYLEX", q.index, "[" .. arrivals.stem(seen + 1), arrivals.stop)
  local ids, found, known = {}, {}, {}
  -- What this script has made available (position.arrive) is noted only when it ends.
  for _, id in ipairs(q.arrived or {}) do members[#members + 1] = id end
  for n = 1, #members do
    local id = string.sub(members[n], -16)
    if not known[id] and (not f.after or id > f.after) then ids[#ids + 1] = id end
    known[id] = true
  end
  if #ids == 0 then return found end
  table.sort(ids)
  local recs = chunked.read(q.records, ids)
  for n = 1, #ids do
    if recs[n] and redis.call("ZSCORE", q.available, ids[n]) and search.admits(q, f, ids[n], recs[n]) then
      found[#found + 1] = { id = ids[n], rec = recs[n] }
      if #found == count then return found end
    end
    if filter.spent(f) then return found, #found == 0 and ids[n] or nil end
  end
  return found
end
