--- require "core/context"
--- require "core/chunked"
--- require lazy "matching/filter"
--- require lazy "matching/search"
--- used by matching/search, waiting/match_waiters, waiting/waiters
-- The messages that became available while readers wait whose filters name no identifier. A reader that searched the
-- whole queue when it registered needs to search only these later on. Used by waiting/waiters, waiting/match_waiters and
-- matching/search.
-- Stored as members "l" number(14) lid of q.index, the last `arrivals.most` of them, numbered by field "arrivals" of q.key, as
-- long as such a reader is registered.
local arrivals = { most = 500 }

function arrivals.note(q, ids)
  local newest = redis.call("HINCRBY", q.key, "arrivals", #ids)
  local args = {}
  for n = math.max(1, #ids - arrivals.most + 1), #ids do
    args[#args + 1] = "0"
    args[#args + 1] = string.format("l%014d%s", newest - #ids + n, ids[n])
  end
  redis.call("ZADD", q.index, unpack(args))
  redis.call("ZREMRANGEBYLEX", q.index, "[l", string.format("(l%014d", math.max(0, newest - arrivals.most + 1)))
end

function arrivals.newest(q)
  return tonumber(redis.call("HGET", q.key, "arrivals") or 0)
end

-- Removes them, since the last reader that needs them is gone.
function arrivals.forget(q)
  redis.call("ZREMRANGEBYLEX", q.index, "[l", "(m")
end

-- Do the arrivals behind number `seen` contain every message that a filter may admit now? Not if the passing of time, or a
-- message that the filter does not admit, may change that: co-operative marks, the rest of a group, the lock of a group.
function arrivals.suffice(q, f, seen)
  if f.grouped or q.options.group_exclusive or f.unmarked then return false end
  return arrivals.newest(q) - seen <= arrivals.most
end

-- Up to `count` entries of arrivals behind number `seen` that the filter admits, in delivery order; and the place to go on
-- from, if there was no time for all.
function arrivals.look(q, f, seen, count)
  local members = redis.call("ZRANGEBYLEX", q.index, string.format("[l%014d", seen + 1), "(m")
  local ids, found, known = {}, {}, {}
  -- What this script has made available is noted only when it ends.
  for n = 1, #(q.arrived or "") do members[#members + 1] = q.arrived[n] end
  for n = 1, #members do
    local lid = string.sub(members[n], -16)
    if not known[lid] and (not f.after or lid > f.after) then ids[#ids + 1] = lid end
    known[lid] = true
  end
  if #ids == 0 then return found end
  table.sort(ids)
  local recs = chunked.read(q.records, ids)
  for n = 1, #ids do
    if recs[n] and redis.call("ZSCORE", q.available, ids[n]) and search.admits(q, f, ids[n], recs[n]) then
      found[#found + 1] = { lid = ids[n], rec = recs[n] }
      if #found == count then return found end
    end
    -- The next call looks at the rest, behind this place.
    if filter.spent(f) then return found, #found == 0 and ids[n] or nil end
  end
  return found
end
