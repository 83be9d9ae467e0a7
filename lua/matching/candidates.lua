--- require lazy "features/group"
--- require lazy "matching/index"
--- used by matching/search
-- Selects the messages that a search has to test, a page at a time: by the index of identifiers if the filter has an identifier
-- (matching/index), else all available messages. Whether they match is for matching/search to test.
--
-- `f` is a parsed filter (matching/filter). Pages are in delivery order, and a page begins behind the id `from`, "" for the
-- first one.
local candidates = {}

-- Does candidates.ids read the index of message or correlation ids, which has to be brought up to date first? That of group
-- ids always is.
function candidates.needs_index(f)
  if f.lookup_id then return false end
  if f.message_id or f.correlation_id then return true end
  if f.group_id then return false end
  for n = 1, #f.any do
    if string.find(f.any[n], "^[mc]") then return true end
  end
  return false
end

-- Returns a page of about `count` lookup ids of available messages that may match, and whether there may be more.
function candidates.ids(q, f, from, count)
  local letters, ids = index.letters
  local lookup_id = f.lookup_id or candidates.generated_from(f.message_id)
  if lookup_id then return candidates.by_lookup_id(q, f, lookup_id, from, count) end
  if f.message_id then
    ids = index.range(q, letters.message_id, f.message_id, from, count)
  elseif f.correlation_id then
    ids = index.range(q, letters.correlation_id, f.correlation_id, from, count)
  elseif f.group_id and f.sequence then
    return candidates.by_sequence(q, f, from), false
  elseif f.group_id then
    ids = index.range(q, letters.group_id, f.group_id, from, count)
  elseif #f.any > 0 then
    return candidates.by_any(q, f, from, count)
  elseif from == "" then
    ids = redis.call("ZRANGE", q.available, 0, count - 1)
  else
    ids = redis.call("ZRANGEBYLEX", q.available, "(" .. from, "+", "LIMIT", 0, count)
  end
  return ids, #ids == count
end

-- Returns the lookup id that a message id was made from, "smq-<lookup id>" (features/copy); nil for any other message id, and
-- for nil.
function candidates.generated_from(message_id)
  return message_id and #message_id == 20 and string.match(message_id, "^smq%-(%x+)$") or nil
end

-- As candidates.ids, of a filter that names a lookup id, or a message id made from one: then senders may have used the same
-- message id, so the index may have more.
function candidates.by_lookup_id(q, f, lookup_id, from, count)
  local ids = f.lookup_id and {} or index.range(q, index.letters.message_id, f.message_id, from, count)
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

-- Returns all messages of a group with the sequence, and the offset, that the filter names. They are few.
function candidates.by_sequence(q, f, from)
  group.load()
  local all, ids = group.members(q, f.group_id, f.sequence, f.offset), {}
  for n = 1, #all do
    if all[n] > from then ids[#ids + 1] = all[n] end
  end
  return ids
end

-- As candidates.ids, of a filter each of whose matches has one of the identifiers f.any: merges their ranges of the index. An
-- element is the letter of the index (index.letters) and the identifier.
function candidates.by_any(q, f, from, count)
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
