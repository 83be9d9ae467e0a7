--- require "core/context"
--- require "core/queue"
--- require "core/record"
--- used by claims/publish, features/features
-- Duplicates (fields k and K of the head: a key, and for how many milliseconds it is remembered). Each held key is a timer
-- "k"<key> of the queue; a subqueue uses its parent's. A key is held while its message is in the queue and while its window
-- runs.
--
-- never: the score of a key that is held as long as its message; above queue.claimed, so it never comes due.
local dedup = { never = 9e15 }

function dedup.member(rec)
  return "k" .. record.field(rec, "dedup_key")
end

-- How long the key of a message is remembered, in ms.
function dedup.window(rec)
  return tonumber(record.field(rec, "dedup_window") or 0)
end

-- Is this key held (dedup.member of a message that is not in the queue)?
function dedup.is_held(q, member)
  -- A key whose window is over may still be there if more timers are due than one call serves.
  local ends_at = redis.call("ZSCORE", q.timers, member)
  return ends_at and tonumber(ends_at) > context.now
end

-- Is one of these messages a duplicate?
function dedup.plan(q, batch, places)
  local seen = {}
  for k = 1, #places do
    local member = dedup.member(batch.records[places[k]])
    if seen[member] or dedup.is_held(q, member) then return status.DUPLICATE end
    seen[member] = true
  end
end

-- Stores the keys of accepted messages. A topic stores no message, so its keys last for their windows only.
function dedup.accept(q, batch, places)
  for k = 1, #places do
    local rec = batch.records[places[k]]
    local ends_at = dedup.never
    if q.options.topic then -- a topic
      ends_at = context.now + dedup.window(rec)
      queue.set_timer(q, ends_at)
    end
    redis.call("ZADD", q.timers, string.format("%.0f", ends_at), dedup.member(rec))
  end
end

-- Removes the key of a message that left, or keeps it until its window ends. The key of an aborted send is removed at once;
-- that of a locked or moved message is kept.
function dedup.leave(q, batch, places)
  if not batch.reason then return end
  local owner = q.parent or q
  for k = 1, #places do
    local rec = batch.records[places[k]]
    local ends_at = tonumber(string.sub(rec, 1, 13)) + dedup.window(rec) -- a record begins with its arrival in ms
    if batch.reason == "aborted" or ends_at <= context.now then
      redis.call("ZREM", owner.timers, dedup.member(rec))
    else
      redis.call("ZADD", owner.timers, string.format("%.0f", ends_at), dedup.member(rec))
      queue.set_timer(owner, ends_at)
    end
  end
end

dedup.hooks = { plan = dedup.plan, accept = dedup.accept, leave = dedup.leave }
