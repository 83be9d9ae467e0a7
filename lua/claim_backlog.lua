-- Tell how much a queue holds and where the claim of a data pipeline stands. Changes nothing, but serves due timers.
-- MS-MQDMPR 3.1.7.1.15 Peek Message
--
-- CALLERS look in mqredis/commands/claims.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] owner  encoded, "" none
-- ARGV[4] bound  14 hex digits: count up to this SequentialID, "" all
-- ARGV[5] bands  "1": also tell how many messages of each priority there are up to the bound
-- ARGV[6] after  14 hex digits: count only what has a later SequentialID, "" all
-- RETURNS OK generation, available messages up to the bound (for an owner: that a claim could take), all messages, bytes of
--   all, last SequentialID given out, arrival of the first available message in ms or "", now in ms, number of locked
--   messages, number of timers, the claim's text or "", "1" if the process of that claim is connected, "1" if groups take
--   turns (features/group_lock); then, if asked, how many there are of each priority, from 7 to 0
-- RETURNS QUEUE_NOT_FOUND
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/record"
--- require "core/timers"
--- require "waiting/waiters"
--- require "claims/claims"
--- require "claims/claim_pages"
local owner, bound, wants_bands, after = ARGV[3], ARGV[4], ARGV[5] == "1", ARGV[6]
local reply = context.open()
if reply then return reply end
local q = queue.open(1)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end
queue.open_parent(q)
timers.serve(q, true)

if context.missing then return waiters.finish(q, context.missing) end
-- by_band: how many there are of each priority, in the order of their ids (band 0 is priority 7).
local available, by_band, last_seq = redis.call("ZCARD", q.available), {}, context.last_sequential()
if bound ~= "" or wants_bands or after ~= "" then
  available = 0
  for band = 0, 7 do
    local from = string.format(after ~= "" and "(%02x%s" or "[%02x%s", band, after)
    local upto = string.format("[%02x%s", band, bound ~= "" and bound or last_seq)
    by_band[band + 1] = redis.call("ZLEXCOUNT", q.available, from, upto)
    available = available + by_band[band + 1]
  end
end
local turns = owner ~= "" and claims.turns(q, bound) -- false or nil: without an owner, or if groups do not take turns
if turns then available = math.min(available, turns) end
local claim = owner ~= "" and claims.open(q, owner)
local first = redis.call("ZRANGE", q.available, 0, 0)[1]
local rec = first and redis.call("HGET", q.records, first)
local first_arrival = rec and record.arrived(rec) or ""
local claim_text, is_connected = claim and claims.format(claim) or "", claim and claims.alive(claim)
reply = context.reply(status.OK, q.generation, available, q.messages, q.bytes, last_seq, first_arrival, context.now,
  claim_pages.locked(q), redis.call("ZCARD", q.timers), claim_text, is_connected and 1 or 0, turns and 1 or 0)
for n = 1, wants_bands and 8 or 0 do reply[#reply + 1] = by_band[n] end
return waiters.finish(q, reply)
