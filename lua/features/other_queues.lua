--- require "core/context"
--- require "core/queue"
--- used by admin/operator, admin/redrive, admin/schedules, bulk, features/copy, features/retry_policy and others
-- Queues beside the one a script works on: journals, dead letters, administration queues, subscribers. A script may touch
-- only keys that KEYS names. If it needs another queue it returns its name (context.require) before anything is changed,
-- and the client calls again with this queue appended.
local other_queues = {}

-- A queue's name as it stands in keys (mqredis/keys.py), and back.
function other_queues.encode(name)
  return (string.gsub(name, "[^A-Za-z0-9._-]", function(c) return string.format("%%%02X", string.byte(c)) end))
end

function other_queues.decode(name)
  return (string.gsub(name, "%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

-- The queue of this encoded name; nothing if it does not exist. With `make` the client is asked to create it.
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
  local q = n and queue.open(n, context.first_place)
  if q and not q.beside then
    -- Also a queue that the script has opened: of a parent it saves no more than what a subqueue counts in it.
    q.beside = true
    context.sides = context.sides or {}
    context.sides[#context.sides + 1] = q
  end
  if q then return q end
  if make or not n then context.require(name) end
end
