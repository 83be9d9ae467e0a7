-- Statistics of a queue and of what stands beside it, of one moment.
-- MQMQ 2.3.11-12; docs/semantics.md, "What an MSMQ user has"
--
-- CALLERS statistics in mqredis/commands/features.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2] its journal
-- QUEUE[3] its ;retry
-- QUEUE[4] its ;poison
-- QUEUE[5] its ;lapsed
-- RETURNS OK names and values in turn: what `say` appends below; ages and "rate_ms" in ms
-- RETURNS QUEUE_NOT_FOUND
-- FLAGS no-writes
--- require "core/context"
--- require "core/queue"
--- require lazy "core/record"
--- require "core/timers"
--- require "admin/samples"
--- require "claims/claim_pages"
-- Change together with: mqredis/commands/features.py, which reads the fields by their names; core/removal, for another counter.
-- Tests: tests/msmq/test_requests.py, test_traces.py.
local reply = context.observe()
if reply then return reply end
local q = queue.read(1)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end
reply = context.reply(status.OK)
-- Appends a name and its value, a number, to the reply.
local function say(name, value) context.append(reply, name, value) end
say("overdue", timers.overdue(q) and 1 or 0)
say("messages", q.messages)
say("bytes", q.bytes)
say("ready", redis.call("ZCARD", q.available))
say("locked", claim_pages.locked(q))
say("waiters", redis.call("ZCARD", q.waiters))
local gone = tonumber(q.gone)
say("left", gone)
for n, name in ipairs({ "journal", "retry", "poison", "lapsed" }) do
  local beside = queue.read(n + 1)
  say(name .. "_messages", beside and beside.messages or 0)
  say(name .. "_bytes", beside and beside.bytes or 0)
end
local counts = { "dead", "n_receive_timeout", "n_queue_purged", "n_receive_rejected", "n_poison", "n_dropped",
  "n_retried" }
local values = redis.call("HMGET", q.key, "sample", "created", unpack(counts))
for n = 1, #counts do say(counts[n], values[n + 2] or 0) end

-- The first available message of each priority is its oldest: an id begins with two digits, 7 less the priority, and the ids of one
-- priority ascend in the order of sending. "g" is behind all hexadecimal digits.
for priority = 7, 0, -1 do
  local digits = string.format("%02x", 7 - priority)
  local id = redis.call("ZRANGEBYLEX", q.available, "[" .. digits, "(" .. digits .. "g", "LIMIT", 0, 1)[1]
  local rec = id and redis.call("HGET", q.records, id)
  if rec then say("oldest" .. priority, math.max(0, context.now - record.arrived(rec))) end
end

-- Traffic since a sample that is one or two periods old if a client asks regularly, else older (admin/samples).
local older, newer = samples.parse(values[1])
local is_due = not newer or samples.is_old(newer)
local before = is_due and newer or older or samples.at_creation(values[2])
-- The client has a new sample taken (stats_sample.lua), unless it may not write.
say("sample_due", is_due and 1 or 0)
local since, came, left = samples.numbers(before)
say("rate_ms", context.now - since)
say("rate_in", q.messages + gone - came)
say("rate_out", gone - left)
return context.close(reply)
