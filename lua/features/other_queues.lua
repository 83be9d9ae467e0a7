--- require "core/context"
--- require "core/queue"
--- used by admin/bulk_actions, admin/operator, admin/redrive, admin/schedules, features/copy, features/retry_policy,
---   features/topic, features/trace, features/trail, features/trash, queue_delete, queue_ensure, queue_update
-- Finds queues beside the one that a script works on: journals, dead letters, administration queues, subscribers. A script may
-- touch only keys that KEYS names. If it needs another queue it returns its name (context.require) before anything is changed,
-- and the client calls again with this queue appended.
--
-- Change together with: a queue that the client is to create (`make`) is one that kept_by_broker of mqredis/keys.py knows, or the
-- call is one for which provide in mqredis/operations/queue_call.py creates all subqueues. The client repeats a call up to ROUNDS
-- times, so one call should ask for all queues that it can tell (tests/unit/test_queue_call.py).
--
-- context.places       by encoded name, the numbers of the queues in KEYS
-- context.first_place  how many keys of the manager come before them (queue.message_keys or queue.admin_keys)
-- context.sides        by encoded name, the queues that were found: when the script ends their counters are written, and their
--                      readers notified
-- system               encoded names of queues of the system (mqredis/keys.py; tests/contract/test_constants.py compares)
local other_queues = { system = { journal = "system%24%3Bjournal", dead_letter = "system%24%3Bdeadletter",
  transactional_dead_letter = "system%24%3Bdeadxact" } }

-- Returns a queue's name as it stands in keys: as encode of mqredis/keys.py does (tests/contract/test_constants.py).
function other_queues.encode(name)
  return (string.gsub(name, "[^A-Za-z0-9._-]", function(c) return string.format("%%%02X", string.byte(c)) end))
end

-- Returns the name of a queue that stands so in keys.
function other_queues.decode(name)
  return (string.gsub(name, "%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

-- Returns the queue with this encoded name. nil if it does not exist, or if KEYS lacks it and the client is asked for it.
-- With `make` the client is also asked for a queue that does not exist, and creates it.
function other_queues.find(name, make)
  if not context.places then
    context.first_place = string.sub(KEYS[3] or "", -7) == ":queues" and queue.admin_keys or queue.message_keys
    context.places = {}
    for n = 1, queue.count_keys(context.first_place) do
      local own = queue.nth_name(n, context.first_place)
      context.places[own] = context.places[own] or n
    end
  end
  local n = context.places[name]
  local q = n and queue.open(n, context.first_place)
  if q then
    -- Also if the script saves the queue itself: the second time changes nothing (store.save_one, notify.serve).
    context.sides = context.sides or {}
    context.sides[name] = q
    return q
  end
  if make or not n then context.require(name) end
end

-- Returns the same for a queue of the family of `home`, which is no subqueue: `home` itself, or one of its subqueues with `home` as
-- its parent.
function other_queues.find_relative(home, name, make)
  local q = other_queues.find(name, make)
  if q and q ~= home then queue.set_parent(q, home) end
  return q
end

-- Returns a queue with its subqueues, which have the properties of their queue and count in it: a list, the queue first.
-- context.missing names those that KEYS lacks. For scripts with "KEYS admin".
function other_queues.family(home)
  local stem, family = other_queues.decode(queue.name(home)) .. ";", { home }
  for _, written in ipairs(redis.call("HKEYS", KEYS[3])) do
    if string.sub(written, 1, #stem) == stem then
      family[#family + 1] = other_queues.find_relative(home, other_queues.encode(written))
    end
  end
  return family
end
