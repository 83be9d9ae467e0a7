-- Close a handle. A subqueue is deleted with its last handle if it is empty, no open transaction moves a message there, and no
-- data pipeline reads it, which would not be known any more.
-- MS-MQDMPR 3.1.7.1.6 Close Queue
--
-- CALLERS close_handle in mqredis/commands/queues.py
-- KEYS admin
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] name  as written, with its subqueue
-- ARGV[4] handle  number, unique in the session; "0", which no handle has, where QueueManager.maintain looks for empty subqueues
-- RETURNS OK
-- FLAGS allow-oom
--- require "claims/claims"
--- require "core/context"
--- require "core/queue"
--- require "core/store"
--- require "core/handle"
--- require "transactions/tx"
-- Change together with: queue_delete.lua, which deletes queues in the same steps. Tests: tests/conformance/test_open.py.
local txs, queues, name, number = KEYS[2], KEYS[3], ARGV[3], ARGV[4]
local is_subqueue = queue.count_keys(queue.admin_keys) > 1
local reply = context.open()
if reply then return reply end
context.mark_changed()
local encoded = queue.nth_name(1, queue.admin_keys)
handle.remove(encoded, number)
local q = queue.open(1, queue.admin_keys)

-- Does anything need the subqueue: a handle, a claim, or a move? Where very many operations are open, one of them is taken to be
-- such a move: an empty subqueue more does no harm.
local function is_needed()
  if handle.all(encoded)[1] or claims.all(q)[1] then return true end
  return redis.call("HLEN", txs) > 4000 or tx.moves_to(encoded)
end

if q and is_subqueue and tonumber(q.messages) == 0 and not is_needed() then
  -- It has no handle, so no reader waits on it.
  store.delete_queue(q)
  redis.call("UNLINK", q.waiters)
  queue.forget(q)
  redis.call("HDEL", queues, name)
end
return context.close({ status.OK })
