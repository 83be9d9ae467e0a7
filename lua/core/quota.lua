--- require "core/context"
--- require "core/queue"
--- require "core/store"
--- used by admin/schedules, claims/publish, features/copy, features/topic, send
-- Quotas: every message in a queue counts, whatever its state. A subqueue counts for itself and in its parent (q.parent),
-- unless it stands apart (queue.set_parent). core/store counts.
local quota = {}

-- Would `count` more messages of `bytes` bytes in all exceed a quota, or is the manager throttled? Returns a status or
-- nothing. The manager's quota is tested first (3.1.7.1.9); an exact fit passes.
function quota.refuses(q, count, bytes)
  if quota.manager_refuses(count, bytes) then return status.ENQUEUE_MANAGER_QUOTA end
  if quota.exceeds_queue(q, count, bytes) then return status.ENQUEUE_QUEUE_QUOTA end
end

function quota.manager_refuses(count, bytes)
  return context.manager.throttled or quota.exceeds_manager(count, bytes)
end

function quota.exceeds_manager(count, bytes)
  local manager = context.manager
  return manager.quota_messages and context.messages + count > manager.quota_messages
    or manager.quota_bytes and context.bytes + bytes > manager.quota_bytes
end

function quota.exceeds_queue(q, count, bytes)
  if q.quota_messages or q.quota_bytes then queue.read_subqueue_totals(q) end
  return q.quota_messages and q.messages + q.sub_messages + count > q.quota_messages
    or q.quota_bytes and q.bytes + q.sub_bytes + bytes > q.quota_bytes
end

-- Do they fit into a queue beside the one the script works on? What is copied there leaves elsewhere, so flow control
-- does not stop it.
function quota.fits(q, count, bytes)
  return not (quota.exceeds_manager(count, bytes) or quota.exceeds_queue(q, count, bytes))
end
