-- The subscriptions of a topic.
-- MS-MQDMPR has no topics: docs/semantics.md
--
-- KEYS admin
-- QUEUE[1] the topic
-- RETURNS OK per subscription: encoded name of the queue, text of features/subscription
-- RETURNS QUEUE_NOT_FOUND
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
local reply = context.open()
if reply then return reply end
local q = queue.open(1, 5)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end
reply = { status.OK, "", 0 }
local fields = redis.call("HGETALL", q.q)
for n = 1, #fields, 2 do
  local name = string.match(fields[n], "^sub:(.*)$")
  if name then
    reply[#reply + 1] = name
    reply[#reply + 1] = fields[n + 1]
  end
end
return context.close(reply)
