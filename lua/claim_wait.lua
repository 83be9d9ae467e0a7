-- Wait until a queue holds something newer than a data pipeline has seen, or something comes back; takes nothing.
-- MS-MQDMPR 3.1.7.3.1 Wait For New Message
--
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] generation  of the queue
-- ARGV[4] after  14 hex digits: what has no later SequentialID does not count, "" all counts
-- ARGV[5] waiter  kind, mode, tag to register when there is nothing (waiting/waiters), "" to register nothing
-- ARGV[6] ticket  "" first registration; its ticket on the next looks
-- RETURNS OK there is something
-- RETURNS WAITING ticket, ms until the next timer of the queue or -1
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/due"
--- require "claims/claim"
--- require "waiting/waiters"
--- require "core/store"
local reply = context.open(ARGV[5] ~= "")
if reply then return reply end
local q = queue.open(1, 2)
if not q or q.generation ~= ARGV[3] then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.open_parent(q, 2)
local more = due.serve(q, true)
reply = context.missing
if not reply then
  local member, rung = waiters.member(ARGV[5], ""), ARGV[5] ~= "" and waiters.handed() ~= nil
  local turns = ARGV[4] == "" and claim.turns(q, "")
  -- Of a queue with turns it may be rung for what only a peek may have.
  if not turns and rung and ARGV[6] ~= "" or (turns or #claim.ids(q, 1, ARGV[4], "")) > 0 then
    if ARGV[5] ~= "" then waiters.drop(q, member, "") end
    reply = { status.OK, "", 0 }
  else
    local ticket = ARGV[5] ~= "" and waiters.wait(q, member, ARGV[6], "") or ""
    reply = { status.WAITING, "", 0, ticket, more and 0 or due.next(q) }
  end
end
store.save(q)
reply = context.close(reply)
waiters.ring(q)
return reply
