--- require "core/chunked"
--- require lazy "matching/index"
--- used by features/features
-- Puts available messages with identifiers into the index (matching/index), and takes them out when they leave. Messages whose
-- only field of this kind is a correlation id do not come here: core/position does the same for them.
local identifiers = {}

-- Adds messages that become available.

function identifiers.arrive(q, batch, places)
  local elements = { nil, nil }
  index.load()
  for k = 1, #places do
    local n = places[k]
    if not batch.fates[n] then index.add(q, batch.ids[n], batch.records[n], batch.wants[n].keys, elements) end
  end
  if elements[1] then chunked.scores(q.index, elements) end
end

-- Removes messages, but for those that were locked, which are not in the index.
function identifiers.leave(q, batch, places)
  local members = { nil }
  index.load()
  for k = 1, #places do
    local n = places[k]
    if not (batch.held and batch.held[n]) then
      index.drop(q, batch.ids[n], batch.records[n], batch.wants[n].keys, members)
    end
  end
  chunked.run("ZREM", q.index, members)
end

identifiers.hooks = { arrive = identifiers.arrive, leave = identifiers.leave }
