-- Keeps the counters of a queue, for the rates that stats.lua tells (admin/samples). Nothing else depends on a sample, so the call
-- gets no history number.
-- MQMQ 2.3.11-12
--
-- CALLERS sample in mqredis/commands/features.py
-- KEYS message
-- QUEUE[1] the queue
-- RETURNS OK
-- RETURNS QUEUE_NOT_FOUND
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "admin/samples"
-- Tests: tests/msmq/test_requests.py.
local reply = context.open()
if reply then return reply end
local q = queue.read(1)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end
local values = redis.call("HMGET", q.key, "sample", "created")
local _, newer = samples.parse(values[1])
if not newer or samples.is_old(newer) then -- else another client has just had one taken
  local before = newer or samples.at_creation(values[2])
  redis.call("HSET", q.key, "sample", samples.format(before, samples.now(q)))
end
return context.close({ status.OK })
