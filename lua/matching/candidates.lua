--- require lazy "features/group"
--- require lazy "matching/index"
--- used by matching/search
-- Selects the messages that a search has to test: a range of the index of identifiers if the filter has an identifier, else
-- all available messages. Used by matching/search. `f` is a parsed filter (matching/filter has its fields).
local candidates = {}

-- Does candidates.ids read the index of message and correlation ids? That of group ids does not count.
function candidates.needs_index(f)
  if f.lookup_id then return false end
  if f.message_id or f.correlation_id then return true end
  if f.group_id then return false end
  for n = 1, #f.any do
    if string.find(f.any[n], "^[mc]") then return true end
  end
  return false
end

-- The message with this lookup id, which the filter names itself or by a generated message id, and if a message id is named
-- those that the index has under it.
function candidates.by_lookup_id(q, f, lookup_id, from, count)
  local ids = f.lookup_id and {} or index.range(q, "m", f.message_id, from, count)
  local more, found = #ids == count, false
  -- A sender may have set a message id equal to the generated one; then the index has returned this message already.
  for n = 1, #ids do found = found or ids[n] == lookup_id end
  local in_page = lookup_id > from and (not more or lookup_id < ids[#ids])
  if not found and in_page and redis.call("ZSCORE", q.available, lookup_id) then
    ids[#ids + 1] = lookup_id
    table.sort(ids)
  end
  return ids, more
end

-- About `count` ids of available messages after `from` that may match, in delivery order; and whether there may be more.
function candidates.ids(q, f, from, count)
  local lookup_id = f.lookup_id or (f.message_id and #f.message_id == 20 and string.match(f.message_id, "^smq%-(%x+)$"))
  if lookup_id then return candidates.by_lookup_id(q, f, lookup_id, from, count) end
  local ids
  if f.message_id then
    ids = index.range(q, "m", f.message_id, from, count)
  elseif f.correlation_id then
    ids = index.range(q, "c", f.correlation_id, from, count)
  elseif f.group_id and f.sequence then
    return candidates.members(q, f, from), false
  elseif f.group_id then
    ids = index.range(q, "g", f.group_id, from, count)
  elseif #f.any > 0 then
    return candidates.merge(q, f, from, count)
  elseif from == "" then
    ids = redis.call("ZRANGE", q.available, 0, count - 1)
  else
    ids = redis.call("ZRANGEBYLEX", q.available, "(" .. from, "+", "LIMIT", 0, count)
  end
  return ids, #ids == count
end

-- All messages with this sequence number (and offset) in a group, after `from`, in delivery order. They are few.
function candidates.members(q, f, from)
  group.load()
  local all, ids = group.members(q, f.group_id, f.sequence, f.offset), {}
  for n = 1, #all do
    if all[n] > from then ids[#ids + 1] = all[n] end
  end
  return ids
end

-- Merges several ranges of the index; every match is in at least one of them.
function candidates.merge(q, f, from, count)
  local seen, ids, complete_to = {}, {}, nil
  local per_range = math.max(1, math.floor(count / #f.any))
  for n = 1, #f.any do
    local part = index.range(q, string.sub(f.any[n], 1, 1), string.sub(f.any[n], 2), from, per_range)
    if #part == per_range and (not complete_to or part[per_range] < complete_to) then complete_to = part[per_range] end
    for k = 1, #part do
      if not seen[part[k]] then ids[#ids + 1] = part[k] end
      seen[part[k]] = true
    end
  end
  table.sort(ids)
  -- Ids behind complete_to may be missing from a range that was cut off: they are left to the next page.
  while complete_to and ids[#ids] > complete_to do ids[#ids] = nil end
  return ids, complete_to ~= nil
end
