-- Keeps the counters of a queue, for the rates that stats.lua tells: the last two samples stay, the older one first, as field
-- "sample" of the queue's hash, "<ms> <in> <out>;<ms> <in> <out>": all messages that ever came, and all that have left. Nothing
-- else depends on a sample, so it gets no history number.
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
local reply = context.open()
if reply then return reply end
local q = queue.read(1)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end
local now = string.format("%.0f %.0f %.0f", context.now, q.messages + q.gone, q.gone)
local new = string.match(redis.call("HGET", q.key, "sample") or "", ";(.*)$")
if not new then -- at its creation nothing had come
  redis.call("HSET", q.key, "sample", redis.call("HGET", q.key, "created") .. " 0 0;" .. now)
elseif context.now - tonumber(string.match(new, "^%d+")) >= 10000 then -- ms; as in stats.lua
  redis.call("HSET", q.key, "sample", new .. ";" .. now)
end
return context.close({ status.OK })
