-- Put dead letters (or journal copies) back into the queue they came from, as new messages with the message id of old. What a
-- message asked for is in force again, and its times count anew; only its dedup key is not taken a second time. admin/redrive
-- decides where each goes, and sends it.
-- docs/semantics.md, "Beyond MSMQ"
--
-- CALLERS redrive in mqredis/commands/features.py
-- KEYS message
-- QUEUE[1] the queue they are in
-- QUEUE[2+] the parent of a subqueue; the queues they go to
-- ARGV[3] generation  of the queue behind the handle
-- ARGV[4] target  encoded name of another queue than the original one, "" none
-- ARGV[5+] id  lookup ids
-- RETURNS OK how many went (those stay that are locked, without an origin, or refused there), last SequentialID that was given out
--   before: a client that redrives a whole queue stops at ids behind it
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
--- require "core/context"
--- require "core/queue"
--- require "core/timers"
--- require "core/position"
--- require "admin/operator"
--- require "admin/redrive"
--- require "waiting/waiters"
-- Change together with: bulk.lua, whose action redrive calls the same functions of admin/redrive.
-- Tests: tests/msmq/test_requests.py, tests/model/redrive.py.
local generation, target, lookup_ids = ARGV[3], ARGV[4], operator.lookup_ids(5)
local reply = context.open()
if reply then return reply end
local q = queue.open(1)
if not q or q.generation ~= generation then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.open_parent(q)
timers.serve(q)

-- decide -----------------------------------------------------------------------------------------
local entries = position.read_available(q, lookup_ids)
local targets = redrive.plan(q, entries, target) -- may ask for queues
local last, went = context.last_sequential(), 0

-- apply ------------------------------------------------------------------------------------------
-- One after the other, since those that went count in the quotas of the next. One that finds no room stays.
if not context.missing then went = redrive.apply(q, entries, targets) end
return waiters.finish(q, context.missing or context.reply(status.OK, went, last))
