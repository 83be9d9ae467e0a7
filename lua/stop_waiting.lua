-- End the registration of a waiting reader. If it was notified already, the next reader is notified in its place; a lock that
-- was handed to it goes back, and the next reader is notified.
-- MS-MQDMPR 3.1.7.3.1 Wait For New Message
--
-- CALLERS leave in mqredis/commands/waiting.py
-- KEYS message
-- QUEUE[1] the queue
-- ARGV[3] waiter  kind, mode and tag, as it has registered with this slot (waiting/waiter_text)
-- ARGV[4] filter  which messages it wanted, "" all
-- RETURNS OK
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "waiting/waiters"
--- require lazy "waiting/waiter_text"
--- require lazy "waiting/handoff"
--- require lazy "waiting/notify"
-- Change together with: receive.lua, which confirms a lock that was handed over, where this gives it back; waiting/notify.
-- Tests: tests/conformance/test_wait.py, tests/client/test_handoff.py, tests/matching/test_notified_readers.py.
local registration, filter_text = ARGV[3], ARGV[4]
local reply = context.open(true)
if reply then return reply end
local q = queue.open(1)
if not q then return context.close({ status.OK }) end

-- What was kept for this slot does not matter: a reader whose registration is gone was notified, had a copy, or was cancelled, and
-- in each case the next reader is notified, since the message may still be there.
waiter_text.take()
if context.handover then -- a sender has handed a lock to it (core/replay)
  if handoff.held(q) then handoff.back(q) end
end
local was_notified = waiters.drop(q, waiter_text.member(registration, filter_text), filter_text) == 0
-- q.arrived: ids of messages that readers are notified of. A lock that went back has set it.
if was_notified and not q.arrived then q.arrived = notify.left(q) end
reply = context.close({ status.OK })
waiters.notify(q)
return reply
