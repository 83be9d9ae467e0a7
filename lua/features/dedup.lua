--- require "core/context"
--- require "core/queue"
--- require "core/record"
-- Duplicates (keys k and K of the head: a key, and for how many milliseconds it is remembered): timers "k"key of the queue,
-- or of its parent. A key is held while the message is in the queue and while its window runs.
local dedup = {}

-- Is one of these messages a duplicate?
function dedup.plan(q, batch, places)
  local seen = {}
  for k = 1, #places do
    local key = record.field(batch.records[places[k]], "k")
    if seen[key] or redis.call("ZSCORE", q.t, "k" .. key) then return status.DUPLICATE end
    seen[key] = true
  end
end

-- Holds the keys of messages that are accepted. A topic keeps no message, so there only the window counts.
function dedup.accept(q, batch, places)
  for k = 1, #places do
    local rec = batch.records[places[k]]
    local over = q.is.f and context.now + tonumber(record.field(rec, "K") or 0) or 9e15
    redis.call("ZADD", q.t, string.format("%.0f", over), "k" .. record.field(rec, "k"))
    queue.set_timer(q, over)
  end
end

-- A key goes with its message, but not before its window is over; that of a message that was never sent goes at once. It
-- stays with a message that is locked or moved.
function dedup.leave(q, batch, places)
  if not batch.reason then return end
  local home = q.parent or q
  for k = 1, #places do
    local rec = batch.records[places[k]]
    local key = record.field(rec, "k")
    local over = tonumber(string.sub(rec, 1, 13)) + tonumber(record.field(rec, "K") or 0)
    if batch.reason == "aborted" or over <= context.now then
      redis.call("ZREM", home.t, "k" .. key)
    else
      redis.call("ZADD", home.t, string.format("%.0f", over), "k" .. key)
      queue.set_timer(home, over)
    end
  end
end

dedup.hooks = { plan = dedup.plan, accept = dedup.accept, leave = dedup.leave }
