-- Show the trail of a message: what has happened to it, also if it has left.
-- docs/guides/why-a-message-failed.md
--
-- CALLERS trail in mqredis/commands/trails.py
-- KEYS message
-- QUEUE[1] the queue that the message is in, or was in
-- ARGV[3] id  lookup id; or "=" and a message id that the sender has chosen, as in features/trail_store
-- RETURNS OK lead of the broker's clock in ms (core/context), text of the trail or "" (features/trail_store), lookup id or "" (no
--   trail has the message id)
-- RETURNS QUEUE_NOT_FOUND
-- FLAGS no-writes
--- require "core/context"
--- require "core/queue"
--- require "features/trail"
--- require "features/trail_store"
-- Change together with: mqredis/codec/trails.py, which parses the text. Tests: tests/inspection/test_trail.py.
local id = ARGV[3]
local reply = context.observe()
if reply then return reply end
local q = queue.read(1)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end
if string.sub(id, 1, 1) == "=" then
  id = trail_store.last_id(queue.name(q), string.sub(id, 2)) or ""
end
local rec = redis.call("HGET", q.records, id) -- false if the message has left
local text = trail_store.text(trail.number(id, rec)) or ""
return context.close(context.reply(status.OK, context.lead, text, id))
