-- Subscribe a queue to a topic, change its selector, or end its subscription.
-- MS-MQDMPR has no topics: docs/semantics.md
--
-- KEYS admin
-- QUEUE[1] the topic
-- QUEUE[2] the subscriber
-- ARGV[3] subscription  text of features/subscription; "" ends it
-- RETURNS OK
-- RETURNS QUEUE_NOT_FOUND topic | subscriber
-- RETURNS INVALID_PARAMETER topic: it is none | subscriber: it is one
--- require "core/context"
--- require "core/queue"
local reply = context.open()
if reply then return reply end
local q, to = queue.open(1, 5), queue.open(2, 5)
if not q then return context.close({ status.QUEUE_NOT_FOUND, "", 0, "topic" }) end
if not queue.has(q, "f") then return context.close({ status.INVALID_PARAMETER, "", 0, "topic" }) end
if not to and ARGV[3] ~= "" then return context.close({ status.QUEUE_NOT_FOUND, "", 0, "subscriber" }) end
if to and queue.has(to, "f") and ARGV[3] ~= "" then
  return context.close({ status.INVALID_PARAMETER, "", 0, "subscriber" })
end
context.mark_changed()
local field = "sub:" .. string.match(KEYS[14], ":q:([^:]+):q$")
if ARGV[3] == "" then
  redis.call("HDEL", q.q, field)
else
  redis.call("HSET", q.q, field, ARGV[3])
end
return context.close({ status.OK })
