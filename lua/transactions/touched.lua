--- require "core/context"
--- require "core/queue"
--- used by commit, move, transactions/tx_parts, tx_abort
-- Opens all queues in KEYS: those that a whole transaction works on, or a move. The key of a token may follow them (tx_abort);
-- queue.count_keys then returns a fraction more than their number, and the loop ends before it.
local touched = {}

-- Returns the queues of KEYS by encoded name; and a set of the names of those that do not exist any more. `first`,
-- `second`: the headers of the first two queues, nil if they were not read yet.
function touched.queues(first, second)
  local found, gone, subqueues = {}, {}, false
  for n = 1, queue.count_keys() do
    local q, key = queue.open(n, nil, n == 1 and first or n == 2 and second or nil), queue.nth_key(n)
    if q then
      found[queue.name(q)] = q
      subqueues = subqueues or string.find(key, "%3B", 1, true)
    else
      gone[queue.name_of_key(key)] = true
    end
  end
  if subqueues then
    for name, q in pairs(found) do
      local parent = string.match(name, "^(.-)%%3B")
      if parent then queue.set_parent(q, found[parent]) end
    end
  end
  return found, gone
end

-- Asks the client for the queue with this encoded name (context.missing), if it is neither in `queues` nor in `gone`, as
-- touched.queues returned them. "" is no name.
function touched.need(name, queues, gone)
  if name ~= "" and not queues[name] and not gone[name] then context.require(name) end
end
