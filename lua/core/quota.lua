--- require "core/context"
--- require "core/queue"
--- require "core/store"
-- Quotas: every message in a queue counts, whatever its state. A subqueue counts for itself and in its parent (q.parent),
-- unless it stands apart (queue.set_parent). core/store counts.
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

-- Do they fit into a queue beside the one the script works on? What is copied there leaves elsewhere, so flow control
-- does not stop it.
function quota.fits(q, count, bytes)
  local throttled = context.throttled
  context.throttled = false
  local code = quota.refuses(q, count, bytes)
  context.throttled = throttled
  return not code
end
