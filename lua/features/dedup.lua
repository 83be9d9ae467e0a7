--- require "core/context"
--- require "core/queue"
--- require lazy "core/record"
--- require "core/timers"
--- used by claims/publish, features/features
-- Refuses duplicates. A sender may give a message a dedup key and a window in ms, from its arrival on (fields dedup_key
-- and dedup_window of the head). The queue holds the key while the message is in it, and until the window ends. A
-- message with a key that is held is refused.
--
-- A held key is a timer `dedup_key` in q.timers, of the parent for a subqueue. Its score is `never` while the message
-- is in the queue, and the end of the window afterwards. never is above queue.claimed, so such a timer does not come
-- due. plan, accept and leave are hooks: features/features says when they are called, and what `batch` and `places` are.
--
-- Change together with: the check `dedup_keys` of the doctor (mqredis/operations/doctor/checks/policies.py) compares the held keys
-- with the messages, and has `never` as HELD (tests/contract/test_stored_texts.py). claims/publish asks dedup.is_held itself.
-- features/topic takes the key off the copies for its subscribers, and features/copy suspends it in dead letters. Tests:
-- tests/msmq/test_delivery.py; the model that tests compare the broker with is tests/model/dedup.py.
local dedup = { never = 9e15 }

-- Returns the member of q.timers for the key of this message, which has one.
function dedup.member(rec)
  return timers.letters.dedup_key .. record.field(rec, "dedup_key")
end

-- Returns the window of a message, in ms.
function dedup.window(rec)
  return tonumber(record.field(rec, "dedup_window") or 0)
end

-- Is this key held? `member`: dedup.member of a message that is not in the queue.
function dedup.is_held(q, member)
  -- A key whose window is over may still be there if more timers are due than one call serves.
  local ends_at = redis.call("ZSCORE", q.timers, member)
  return ends_at and tonumber(ends_at) > context.now
end

-- Refuses a batch that holds a duplicate, also of a message before it in the batch.
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
    if q.options.topic then
      ends_at = context.now + dedup.window(rec)
      queue.set_timer(q, ends_at)
    end
    redis.call("ZADD", q.timers, string.format("%.0f", ends_at), dedup.member(rec))
  end
end

-- Removes the key of a message that left, or keeps it until its window ends. The key of an aborted send is removed at
-- once; that of a locked or moved message is kept.
function dedup.leave(q, batch, places)
  if not batch.reason then return end
  local owner = queue.home(q)
  for k = 1, #places do
    local rec = batch.records[places[k]]
    local ends_at = record.arrived(rec) + dedup.window(rec) -- from its arrival on
    if batch.reason == "aborted" or ends_at <= context.now then
      redis.call("ZREM", owner.timers, dedup.member(rec))
    else
      redis.call("ZADD", owner.timers, string.format("%.0f", ends_at), dedup.member(rec))
      queue.set_timer(owner, ends_at)
    end
  end
end

dedup.hooks = { plan = dedup.plan, accept = dedup.accept, leave = dedup.leave }
