--- require "core/chunked"
--- require lazy "matching/index"
--- used by features/features
-- Messages that can be found by their identifiers: their elements in the index (matching/index). Plain messages with a
-- correlation id alone do not come here, since core/position knows their only element.
local identifiers = {}

function identifiers.arrive(q, batch, places)
  local elements = { nil, nil }
  index.load()
  for k = 1, #places do
    local n = places[k]
    if not batch.fates[n] then index.add(q, batch.ids[n], batch.records[n], batch.wants[n].keys, elements) end
  end
  if elements[1] then chunked.scores(q.index, elements) end
end

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
