-- Serve due timers of a queue that no other call works on: expiries, delays, lapsed locks and transactions.
-- MS-MQDMPR 3.1.7.2.7 Time To Be Received Timer Expired
--
-- CALLERS maintain in mqredis/commands/manager.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- RETURNS OK
-- RETURNS CONTINUE more is due
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/timers"
--- require "waiting/waiters"
-- Change together with: core/timers, which does the work. Tests: tests/property/test_late_timers.py, tests/msmq/test_due.py.
local reply = context.open()
if reply then return reply end
local q = queue.open(1)
if not q then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.open_parent(q)
local more = timers.all(q) -- also if q.due says that nothing is due
return waiters.finish(q, context.missing or { more and status.CONTINUE or status.OK })
