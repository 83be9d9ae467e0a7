-- Wait until a queue holds a message that is newer than what a data pipeline has seen, or that came back. Takes nothing.
-- MS-MQDMPR 3.1.7.3.1 Wait For New Message
--
-- CALLERS wait in mqredis/commands/claims.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] generation  of the queue
-- ARGV[4] after  14 hex digits: only a message with a later SequentialID counts, or one that came since the ticket was given;
--   "" any message
-- ARGV[5] waiter  kind, mode, tag to register when there is nothing (waiting/waiters), "" to register nothing
-- ARGV[6] ticket  "" first registration; its ticket on later polls
-- RETURNS OK there is such a message
-- RETURNS WAITING ticket, ms until the next timer of the queue or -1
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/timers"
--- require "claims/claims"
--- require "waiting/waiters"
--- require lazy "waiting/waiter_text"
-- Change together with: claims/fill, which decides what a claim takes; claim_match.lua, which looks for pipelines with a selector.
-- Tests: tests/client/test_claims.py, tests/matching/test_notified_readers.py, tests/spark/test_idle.py.
local generation, after, registration, old_ticket = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local registers = registration ~= ""
local reply = context.open(registers)
if reply then return reply end
local q = queue.open(1)
if not q or q.generation ~= generation then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.open_parent(q)
timers.serve(q)
if context.missing then return waiters.finish(q, context.missing) end

local member = waiter_text.member(registration, "") -- of q.waiters
-- Pipelines register as peeks, without a tag or a lease (`wait` in mqredis/operations/pipelines.py), so only a copy is handed over.
local was_notified = registers and waiter_text.take() ~= nil
-- Where groups take turns, a waiter may be notified of a message that only a peek may have. So the ready groups are counted (nil
-- for other queues), unless a message has to be newer than `after`, which they do not tell.
local ready_groups = nil
if after == "" then ready_groups = claims.turns(q, "") end
local is_there
if ready_groups then
  is_there = ready_groups > 0
else
  -- Without a ticket the reader has not waited yet, and what was kept for its slot is older than this wait.
  is_there = was_notified and old_ticket ~= "" or #claims.ids(q, 1, after, "") > 0
end
if is_there then
  if registers then waiters.drop(q, member, "") end
  return waiters.finish(q, context.reply(status.OK))
end
local ticket = registers and waiters.wait(q, member, old_ticket, "") or ""
return waiters.finish(q, context.reply(status.WAITING, ticket, timers.next(q)))
