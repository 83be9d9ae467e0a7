--- require lazy "features/group"
--- require lazy "matching/index"
-- The messages among which a search looks for those that a filter admits: a range of the index of identifiers if the
-- filter names an identifier, else all available messages. Used by matching/search. `f` is a parsed filter.
local candidates = {}

-- Do the candidates come from the index of message and correlation ids?
function candidates.need_index(f)
  if f.i then return false end
  if f.m or f.c then return true end
  for n = 1, f.g and 0 or #f.any do
    if string.find(f.any[n], "^[mc]") then return true end
  end
  return false
end

-- Up to `count` ids of available messages behind `from`, in delivery order, that may match; and whether there may be more.
function candidates.ids(q, f, from, count)
  local own = f.i or (f.m and string.match(f.m, "^smq%-(%x+)$"))
  if f.i or (own and #own == 16) then
    local ids = f.i and {} or index.range(q, "m", f.m, from, count)
    local more, given = #ids == count, false
    -- A message may carry as its own id the one that would be generated for it; then the index has it already.
    for n = 1, #ids do given = given or ids[n] == own end
    if not given and own > from and redis.call("ZSCORE", q.a, own) and (not more or own < ids[#ids]) then
      ids[#ids + 1] = own
      table.sort(ids)
    end
    return ids, more
  end
  local ids
  if f.m then
    ids = index.range(q, "m", f.m, from, count)
  elseif f.c then
    ids = index.range(q, "c", f.c, from, count)
  elseif f.g and f.n then
    return candidates.members(q, f, from), false
  elseif f.g then
    ids = index.range(q, "g", f.g, from, count)
  elseif #f.any > 0 then
    return candidates.merge(q, f, from, count)
  elseif from == "" then
    ids = redis.call("ZRANGE", q.a, 0, count - 1)
  else
    ids = redis.call("ZRANGEBYLEX", q.a, "(" .. from, "+", "LIMIT", 0, count)
  end
  return ids, #ids == count
end

-- All messages with a place in a group, in delivery order: these are few.
function candidates.members(q, f, from)
  group.load()
  local all, ids = group.members(q, f.g, f.n, f.o), {}
  for n = 1, #all do
    if all[n] > from then ids[#ids + 1] = all[n] end
  end
  return ids
end

-- Candidates from several ranges of the index; every match is in one of them.
function candidates.merge(q, f, from, count)
  local seen, ids, more, limit = {}, {}, false, nil
  local each = math.max(1, math.floor(count / #f.any))
  for n = 1, #f.any do
    local part = index.range(q, string.sub(f.any[n], 1, 1), string.sub(f.any[n], 2), from, each)
    if #part == each then
      more = true
      if not limit or part[each] < limit then limit = part[each] end
    end
    for k = 1, #part do
      if not seen[part[k]] then ids[#ids + 1] = part[k] end
      seen[part[k]] = true
    end
  end
  table.sort(ids)
  while limit and #ids > 0 and ids[#ids] > limit do ids[#ids] = nil end
  return ids, more
end
