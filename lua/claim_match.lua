-- Is there a message that a data pipeline with a selector would claim? Changes no message, but serves due timers
-- and adds to the index of identifiers.
-- MS-MQDMPR 3.1.7.1.15 Peek Message
--
-- CALLERS match in mqredis/commands/claims.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] filter  which messages match (matching/filter)
-- ARGV[4] after  14 hex digits: only what has a later SequentialID, "" all
-- ARGV[5] bound  14 hex digits: only up to this SequentialID, "" all
-- ARGV[6] place  where the search of the call before has stopped, "" at first
-- RETURNS OK "1" or "0"
-- RETURNS CONTINUE place: call again
-- RETURNS QUEUE_NOT_FOUND
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/timers"
--- require "claims/claims"
--- require "matching/search"
--- require "waiting/waiters"
-- Change together with: claims/fill, which decides what a claim takes; claim_wait.lua, for pipelines without a selector.
-- Tests: tests/client/test_claim_choice.py.
local filter_text, after, bound, start = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local reply = context.open()
if reply then return reply end
local q = queue.open(1)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end
queue.open_parent(q)
timers.serve(q)
if context.missing then return waiters.finish(q, context.missing) end
-- `takes`: passes over the messages of busy groups, as a claim does. Filters of pipelines have no field G (matching/filter), so the
-- search refuses none.
local found, place = search.read_page(q, filter_text, start, claims.page_with_records, { takes = true })
if #claims.between(found, after, bound) > 0 then return waiters.finish(q, context.reply(status.OK, "1")) end
if place then return waiters.finish(q, context.reply(status.CONTINUE, place)) end
return waiters.finish(q, context.reply(status.OK, "0"))
