--- require "core/context"
--- require "core/queue"
-- Byte and message accounting: the only writer of counters. Everything in the list counts, whatever its state.
-- A subqueue counts for itself and, for the quota, in its parent (q.parent).
local quota = {}

-- Would `count` more messages of `bytes` bytes in all exceed a quota? Returns a status or nothing.
-- The manager's is tested first (3.1.7.1.9); an exact fit passes.
function quota.refuses(q, count, bytes)
  if context.throttled
    or (context.quota_messages and context.messages + count > context.quota_messages)
    or (context.quota_bytes and context.bytes + bytes > context.quota_bytes) then
    return status.ENQUEUE_MANAGER_QUOTA
  end
  if q.quota_messages or q.quota_bytes then queue.read_subqueue_totals(q) end
  if (q.quota_messages and q.messages + q.sub_messages + count > q.quota_messages)
    or (q.quota_bytes and q.bytes + q.sub_bytes + bytes > q.quota_bytes) then
    return status.ENQUEUE_QUEUE_QUOTA
  end
end

-- Counts messages in (positive) or out (negative). quota.save notes it for context.close.
function quota.add(q, count, bytes)
  if count == 0 then return end
  q.messages = q.messages + count
  q.bytes = q.bytes + bytes
  if count < 0 then q.gone = q.gone - count end
  q.changed = true
  context.messages = context.messages + count
  context.bytes = context.bytes + bytes
  if q.parent then
    queue.read_subqueue_totals(q.parent)
    q.parent.sub_messages = q.parent.sub_messages + count
    q.parent.sub_bytes = q.parent.sub_bytes + bytes
  end
end

-- Do they fit into a queue beside the one the script works on? What is copied there leaves elsewhere, so flow control
-- does not stop it.
function quota.fits(q, count, bytes)
  local throttled = context.throttled
  context.throttled = false
  local code = quota.refuses(q, count, bytes)
  context.throttled = throttled
  return not code
end

-- What was counted, of this queue and of those beside it that the script touched (features/other_queues), is written by context.close.
function quota.save(q)
  quota.write(q)
  for n = 1, #(context.sides or "") do quota.write(context.sides[n]) end
end

function quota.write(q)
  if q.parent then
    if q.changed and q.parent.sub_messages then
      redis.call("HSET", q.parent.q, "sub_messages", q.parent.sub_messages, "sub_bytes", q.parent.sub_bytes)
    end
    quota.write(q.parent)
  end
  if q.changed then queue.save(q) end
end
