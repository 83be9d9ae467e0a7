-- A waiting reader gives up. If it had been rung already, its wake goes on to the next one; a lock that it was handed goes
-- back, and the next one is rung.
-- MS-MQDMPR 3.1.7.3.1 Wait For New Message
--
-- KEYS message
-- QUEUE[1] the queue
-- ARGV[3] waiter  kind, mode, tag it registered with this slot
-- ARGV[4] filter  which messages it wanted, "" all
-- RETURNS OK
-- FLAGS allow-oom
--- require "core/frame"
--- require "core/queue"
--- require "waiting/wake"
--- require lazy "waiting/hand"
--- require lazy "waiting/ring"
local reply = frame.open(true)
if reply then return reply end
local q = queue.open(1, 2)
if q then
  wake.handed()
  if frame.handover then
    hand.load()
    if hand.held(q) then hand.back(q) end
  end
  if wake.drop(q, wake.member(ARGV[3], ARGV[4]), ARGV[4]) == 0 and not q.arrived then
    ring.load()
    q.arrived = ring.left(q)
  end
end
reply = frame.close({ status.OK })
if q then wake.ring(q) end
return reply
