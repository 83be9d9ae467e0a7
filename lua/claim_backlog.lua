-- Tell how much a data pipeline could take of a queue, and where its claim stands. Changes nothing, but serves due timers.
-- MS-MQDMPR 3.1.7.1.15 Peek Message
--
-- CALLERS backlog in mqredis/commands/claims.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] owner  encoded, "" none
-- ARGV[4] bound  14 hex digits: count up to this SequentialID, "" all
-- ARGV[5] after  14 hex digits: count only what has a later SequentialID, "" all
-- RETURNS OK generation, available messages up to the bound (for an owner: that a claim could take), last SequentialID given out,
--   arrival of the first available message in ms or "", now in ms, the claim's text or "", 1 if its process is connected, 1 if the
--   count is for an owner, in a queue whose groups take turns (features/group_lock)
-- RETURNS QUEUE_NOT_FOUND
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require lazy "core/record"
--- require "core/timers"
--- require "waiting/waiters"
--- require "claims/claims"
-- Change together with: Backlog in mqredis/commands/claims.py, which takes the elements by place; claims/fill, which decides what a
-- claim takes. Tests: tests/client/test_claims.py; tests/spark/test_idle.py, for the progress that pipelines report.
local owner, bound, after = ARGV[3], ARGV[4], ARGV[5]
local reply = context.open()
if reply then return reply end
local q = queue.open(1)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end
queue.open_parent(q)
timers.serve(q)
if context.missing then return waiters.finish(q, context.missing) end
local available, claim, turns = claims.count(q, after, bound), nil, nil
if owner ~= "" then
  turns = claims.turns(q, bound) -- how many groups a claim could take a message of; nil if groups take no turns
  if turns then available = math.min(available, turns) end
  claim = claims.open(q, owner)
end
local first = redis.call("ZRANGE", q.available, 0, 0)[1]
local rec = first and redis.call("HGET", q.records, first)
local first_arrival = rec and record.arrived(rec) or ""
local claim_text, is_connected = claim and claims.format(claim) or "", claim ~= nil and claims.alive(claim)
return waiters.finish(q, context.reply(status.OK, q.generation, available, context.last_sequential(), first_arrival,
  context.now, claim_text, is_connected and 1 or 0, turns and 1 or 0))
