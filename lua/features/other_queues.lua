--- require "core/context"
--- require "core/queue"
-- Queues beside the one a script works on: journals, dead letters, administration queues, subscribers. A script may
-- touch only what KEYS names: what it needs besides is told by context.missing, before anything is changed, and the
-- client calls again with these queues appended.
local other_queues = {}

-- A queue's name as its keys spell it, and back.
function other_queues.encode(name)
  return (string.gsub(name, "[^A-Za-z0-9._-]", function(c) return string.format("%%%02X", string.byte(c)) end))
end

function other_queues.decode(name)
  return (string.gsub(name, "%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

-- The queue of this encoded name. Nothing if it does not exist; with `make` it is one that can be created, so the
-- client is asked to.
function other_queues.find(name, make)
  if not context.places then
    context.first_place = string.sub(KEYS[3] or "", -7) == ":queues" and 5 or 2
    context.places = {}
    for n = 1, (#KEYS - context.first_place) / 8 do
      local own = string.match(KEYS[context.first_place + n * 8 - 7], ":q:([^:]+):q$")
      context.places[own] = context.places[own] or n
    end
  end
  local n = context.places[name]
  local q = n and context.queues[KEYS[context.first_place + n * 8 - 7]]
  if not q then q = n and queue.open(n, context.first_place) end
  if q and not q.beside then
    -- Also one that was at hand: nobody saves the parent of a subqueue but for what the subqueue counts in it.
    q.beside = true
    context.sides = context.sides or {}
    context.sides[#context.sides + 1] = q
  end
  if q then return q end
  if make or not n then context.require(name) end
end
