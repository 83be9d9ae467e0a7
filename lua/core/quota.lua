--- require "core/context"
--- require "core/queue"
--- require "core/store"
-- Quotas: every message in a queue counts, whatever its state. A subqueue counts for itself and in its parent (q.parent),
-- unless it stands apart (queue.set_parent). core/store counts.
local quota = {}

-- Would `count` more messages of `bytes` bytes in all exceed a quota, or is the manager throttled? Returns a status or
-- nothing. The manager's quota is tested first (3.1.7.1.9); an exact fit passes.
function quota.refuses(q, count, bytes)
  if context.manager.throttled then return status.ENQUEUE_MANAGER_QUOTA end
  return quota.exceeded(q, count, bytes)
end

function quota.exceeded(q, count, bytes)
  local manager = context.manager
  if (manager.quota_messages and context.messages + count > manager.quota_messages)
    or (manager.quota_bytes and context.bytes + bytes > manager.quota_bytes) then
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
  return not quota.exceeded(q, count, bytes)
end
