-- End the registration of a waiting reader. If it was notified already, the next reader is notified in its place; a lock that
-- was handed to it goes back, and the next reader is notified.
-- MS-MQDMPR 3.1.7.3.1 Wait For New Message
--
-- CALLERS leave in mqredis/commands/waiting.py
-- KEYS message
-- QUEUE[1] the queue
-- ARGV[3] waiter  kind, mode, tag it registered with this slot
-- ARGV[4] filter  which messages it wanted, "" all
-- RETURNS OK
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "waiting/waiters"
--- require "waiting/waiter_text"
--- require lazy "waiting/handoff"
--- require lazy "waiting/notify"
local registration, filter_text = ARGV[3], ARGV[4]
local reply = context.open(true)
if reply then return reply end
local q = queue.open(1)
if q then
  waiter_text.take()
  if context.handover then
    handoff.load()
    if handoff.held(q) then handoff.back(q) end
  end
  -- A reader that is not registered any more was notified, so another one is; a lock that went back has set q.arrived.
  if waiters.drop(q, waiter_text.member(registration, filter_text), filter_text) == 0 and not q.arrived then
    notify.load()
    q.arrived = notify.left(q)
  end
end
reply = context.close({ status.OK })
if q then waiters.notify(q) end
return reply
