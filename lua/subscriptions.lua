-- The subscriptions of a topic.
-- MS-MQDMPR has no topics: docs/semantics.md
--
-- CALLERS subscriptions in mqredis/commands/features.py
-- KEYS admin
-- QUEUE[1] the topic
-- RETURNS OK per subscription: encoded name of the queue, text of features/subscription
-- RETURNS QUEUE_NOT_FOUND
-- FLAGS no-writes
--- require "core/context"
--- require "core/queue"
--- require "features/subscription"
-- Tests: tests/msmq/test_topics.py.
local reply = context.observe()
if reply then return reply end
local q = queue.read(1, queue.admin_keys)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end
reply = context.reply(status.OK)
local names, texts = subscription.all(q)
for n = 1, #names do context.append(reply, names[n], texts[names[n]]) end
return context.close(reply)
