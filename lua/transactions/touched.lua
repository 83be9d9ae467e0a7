--- require "core/context"
--- require "core/queue"
--- used by commit, move, transactions/tx_parts, tx_abort
-- Opens all queues in KEYS: those that a whole transaction works on, or a move. The key of a token may follow them (tx_abort);
-- queue.count_keys then returns a fraction more than their number, and the loop ends before it.
local touched = {}

-- Returns the queues of KEYS by encoded name, subqueues with their parents (queue.set_parent); and a set of the names of those that
-- do not exist any more. `second`: the header of the second queue, nil if it was not read yet; context.open has read the first.
function touched.queues(second)
  local found, gone = {}, {}
  for n = 1, queue.count_keys() do
    local q, name = queue.open(n, nil, n == 2 and second or nil), queue.nth_name(n)
    if q then found[name] = q else gone[name] = true end
  end
  for name, q in pairs(found) do
    local home, subqueue = queue.split_name(name)
    if subqueue then queue.set_parent(q, found[home]) end
  end
  return found, gone
end

-- Asks the client for the queue with this encoded name (context.missing), if it is neither in `queues` nor in `gone`, as
-- touched.queues returned them. "" is no name.
function touched.need(name, queues, gone)
  if name ~= "" and not queues[name] and not gone[name] then context.require(name) end
end
