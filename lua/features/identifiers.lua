--- require "core/chunked"
--- require lazy "matching/index"
--- used by core/position, features/features
-- Puts available messages with identifiers into the index (matching/index), and takes them out when they leave. Messages that
-- ask for nothing but a correlation id (flag `named` of core/record) do not come here: position.special does the same for them, by
-- record.member. arrive and leave are hooks: features/features says when they are called, and what `batch` and `places` are.
--
-- Change together with: a further identifier is a letter of matching/index, and one of the fields of this feature in
-- features/features. tests/matching/test_index_marks.py compares the index with the messages.
local identifiers = {}

-- Returns the members in the index of the messages at these places of a batch, but for the places in the set `absent`.
function identifiers.members(q, batch, places, absent)
  local members = { nil }
  for k = 1, #places do
    local n = places[k]
    if not absent[n] then index.append(members, q, batch.ids[n], batch.records[n], batch.wants[n].keys) end
  end
  return members
end

-- Adds messages that become available.
function identifiers.arrive(q, batch, places)
  chunked.add(q.index, identifiers.members(q, batch, places, batch.fates))
end

-- Removes messages, but for those that were locked, which are not in the index.
function identifiers.leave(q, batch, places)
  chunked.run("ZREM", q.index, identifiers.members(q, batch, places, batch.held or {}))
end

identifiers.hooks = { arrive = identifiers.arrive, leave = identifiers.leave }
