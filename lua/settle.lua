-- Commit, abort, reject or renew two-phase locks.
-- MS-MQDMPR 3.1.7.1.12 Dequeue Message End
--
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] generation  of the queue behind the handle
-- ARGV[4] lease  of a renewal, ms
-- ARGV[5+] settlement  three for each run: action, fence, ids (core/settle)
-- RETURNS OK now in ms, then id and why ("a" available again, "f" locked by somebody else, "g" gone) of each lost lock
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/straight"
--- require lazy "core/straight_locks"
--- require "core/context"
--- require "core/queue"
--- require "core/due"
--- require "core/settle"
--- require "waiting/waiters"
--- require "core/store"
local reply, meta, time, line
if #(ARGV[7] or "") > 16 then
  straight_locks.load()
  reply, meta, time, line = straight_locks.settle()
else
  reply, meta, time, line = straight.settle()
end
reply = reply or context.open(false, meta, time)
if reply then return reply end
local q = queue.open(1, 2, line)
if not q or q.generation ~= ARGV[3] then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.open_parent(q, 2)
due.serve(q, true)
local lost = not context.missing and settle.all(q, 5, (#ARGV - 4) / 3, tonumber(ARGV[4]))
reply = context.missing or { status.OK, "", 0, context.now }
for n = 1, #(lost or "") do reply[n + 4] = lost[n] end
store.save(q)
reply = context.close(reply)
waiters.ring(q)
return reply
