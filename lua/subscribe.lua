-- Subscribe a queue to a topic, change its selector, or end its subscription.
-- MS-MQDMPR has no topics: docs/semantics.md
--
-- CALLERS subscribe in mqredis/commands/features.py
-- KEYS admin
-- QUEUE[1] the topic
-- QUEUE[2] the subscriber
-- ARGV[3] subscription  text of features/subscription; "" ends it
-- RETURNS OK
-- RETURNS QUEUE_NOT_FOUND which: topic | subscriber
-- RETURNS INVALID_PARAMETER why: topic, that queue is not a topic | subscriber, that queue is a topic | transactional, only one of
--   the two is
--- require "core/context"
--- require "core/queue"
--- require "features/subscription"
-- Change together with: features/topic, which reads the subscriptions of a topic at each publication; mqredis/operations/topics.py,
-- which makes the text. Tests: tests/msmq/test_topics.py.
local text = ARGV[3]
local reply = context.open()
if reply then return reply end
local q, subscriber = queue.open(1, queue.admin_keys), queue.open(2, queue.admin_keys)
local function refuse(code, which) return context.close(context.reply(code, which)) end
if not q then return refuse(status.QUEUE_NOT_FOUND, "topic") end
if not q.options.topic then return refuse(status.INVALID_PARAMETER, "topic") end
-- A subscription of a deleted queue can be ended, but not begun.
if text ~= "" and not subscriber then return refuse(status.QUEUE_NOT_FOUND, "subscriber") end
if text ~= "" and subscriber.options.topic then return refuse(status.INVALID_PARAMETER, "subscriber") end
-- Both are fixed when a queue is created, so the subscriber would never get a message. One that is created anew may be of the other
-- kind later: features/topic passes it over.
if text ~= "" and subscriber.options.transactional ~= q.options.transactional then
  return refuse(status.INVALID_PARAMETER, "transactional")
end
context.mark_changed()
local name = queue.nth_name(2, queue.admin_keys)
if text == "" then subscription.remove(q, name) else subscription.save(q, name, text) end
return context.close({ status.OK })
