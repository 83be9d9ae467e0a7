-- Commit, abort, reject or extend locks.
-- MS-MQDMPR 3.1.7.1.12 Dequeue Message End
--
-- CALLERS settle in mqredis/commands/settlement.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent if QUEUE[1] is a subqueue, then queues that KEYS_CHANGED named
-- ARGV[3] generation  of the queue behind the handle
-- ARGV[4] lease  ms, of a lock that is extended (action x)
-- ARGV[5+] settlement  three for each run: action, fence, ids of 16 digits one behind the other (core/settle)
-- RETURNS OK now in ms, then id and why ("a" available again, "f" locked by another reader, "g" gone) of each lost lock
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/settle"
--- require "core/timers"
--- require "waiting/waiters"
-- Change together with: receive.lua, which takes settlements in the same form; mqredis/operations/durability/changes.py, for an
-- action whose change is permanent. core/settle says what else a new action takes.
-- Tests: tests/conformance/test_lock.py, tests/msmq/test_due.py, tests/client/test_packed_locks.py.
local generation, lease = ARGV[3], ARGV[4]
local reply = context.open()
if reply then return reply end
local q = queue.read(1)
if not q or q.generation ~= generation then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.open_parent(q)
timers.serve(q, true)
local lost
if not context.missing then lost = settle.all(q, ARGV, 5, tonumber(lease)) end
if context.missing then return waiters.finish(q, context.missing) end -- this saves what the timers have done
reply = context.reply(status.OK, context.now)
for n = 1, #lost do reply[n + 4] = lost[n] end
return waiters.finish(q, reply)
