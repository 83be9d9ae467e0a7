--- require lazy "features/group"
--- require lazy "matching/index"
--- used by matching/search
-- Selects the messages that a search has to test, a page at a time: by the index of identifiers if the filter has an identifier
-- (matching/index), else all available messages. Whether they match is for matching/search to test.
--
-- Pages are in delivery order, and a page begins behind the id `from`, "" for the first one. `criteria`: of filter.parse
-- (matching/filter).
--
-- Another way to select candidates must not leave out a message that filter.test admits. If it reads message or correlation ids, it
-- also stands in candidates.needs_index; if nothing else is left to test, in search.matches_all_candidates (matching/search).
-- Tests: tests/matching/test_identifiers.py, and at random tests/property/test_matching.py.
local candidates = {}

-- Does candidates.page read the index of message or correlation ids, which has to be brought up to date first? That of group
-- ids always is.
function candidates.needs_index(criteria)
  if criteria.lookup_id then return false end
  if criteria.message_id or criteria.correlation_id then return true end
  if criteria.group_id then return false end
  for n = 1, #criteria.alternatives do
    local letter = string.sub(criteria.alternatives[n], 1, 1)
    if letter == index.letters.message_id or letter == index.letters.correlation_id then return true end
  end
  return false
end

-- Returns a page of about `count` lookup ids of available messages that may match, and whether there may be more.
function candidates.page(q, criteria, from, count)
  local letters = index.letters
  local ids
  if criteria.lookup_id then
    ids = { candidates.is_behind(q, criteria.lookup_id, from) and criteria.lookup_id or nil }
  elseif criteria.message_id then
    return candidates.by_alternatives(q, { letters.message_id .. criteria.message_id }, from, count)
  elseif criteria.correlation_id then
    ids = index.range(q, letters.correlation_id, criteria.correlation_id, from, count)
  elseif criteria.group_id and criteria.sequence then
    ids = candidates.by_sequence(q, criteria, from)
  elseif criteria.group_id then
    ids = index.range(q, letters.group_id, criteria.group_id, from, count)
  elseif #criteria.alternatives > 0 then
    return candidates.by_alternatives(q, criteria.alternatives, from, count)
  elseif from == "" then
    ids = redis.call("ZRANGE", q.available, 0, count - 1)
  else
    ids = redis.call("ZRANGEBYLEX", q.available, "(" .. from, "+", "LIMIT", 0, count)
  end
  return ids, #ids == count
end

-- Is there an available message with this lookup id, and behind the id `from`?
function candidates.is_behind(q, lookup_id, from)
  return lookup_id > from and redis.call("ZSCORE", q.available, lookup_id)
end

-- Returns all messages of a group with the sequence, and the offset, that the criteria name. They are few.
function candidates.by_sequence(q, criteria, from)
  local members, ids = group.members(q, criteria.group_id, criteria.sequence, criteria.offset), {}
  for n = 1, #members do
    if members[n] > from then ids[#ids + 1] = members[n] end
  end
  return ids
end

-- As candidates.page, of the messages that have one of these identifiers (`alternatives`, each with its letter of the index in
-- front): merges their ranges of the index, and the messages of ids that were made from lookup ids, which the index lacks; a sender
-- may have given any message such an id, too. There are few alternatives: of many `_hints` in mqredis/commands/filters.py sends
-- none.
function candidates.by_alternatives(q, alternatives, from, count)
  local seen, ids, cut_off = {}, {}, {} -- cut_off: the last id of each range that was cut off
  local per_range = math.max(1, math.floor(count / #alternatives))
  for n = 1, #alternatives do
    local letter, id = string.sub(alternatives[n], 1, 1), string.sub(alternatives[n], 2)
    local range = index.range(q, letter, id, from, per_range)
    cut_off[#cut_off + 1] = range[per_range]
    local own = letter == index.letters.message_id and index.lookup_id_in(id)
    if own and candidates.is_behind(q, own, from) then range[#range + 1] = own end
    for k = 1, #range do
      if not seen[range[k]] then ids[#ids + 1] = range[k] end
      seen[range[k]] = true
    end
  end
  table.sort(ids)
  table.sort(cut_off)
  local complete_to = cut_off[1] -- ids behind it may be missing
  while complete_to and ids[#ids] > complete_to do ids[#ids] = nil end -- these are left to the next page
  return ids, complete_to ~= nil
end
