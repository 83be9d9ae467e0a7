--- require "core/context"
--- require "core/queue"
--- used by admin/schedules, claims/publish, features/copy, features/retry_policy, features/topic, send
-- Quotas: every message in a queue counts, whatever its state. A subqueue counts for itself and in its parent (q.parent),
-- unless it has a quota of its own (queue.set_parent). core/store counts.
--
-- Change together with: these apply quotas in their own way. has_room of features/retry_policy heeds no quota of the manager;
-- features/topic adds up what all subscribers get (topic.refuses), and refuses as the manager does (topic.plan); send.lua asks only
-- if the manager or the queue has a limit; claims/publish adds up the stages of each queue, and chooses the statuses itself;
-- admin/redrive takes what leaves out of the counts while it asks. tests/conformance/test_quota.py has the rules.
local quota = {}

-- Returns the status that refuses `count` more messages of `bytes` bytes in all: since a quota would be exceeded, or the manager is
-- throttled; nil if they may come. The manager's quota is tested first (3.1.7.1.9); an exact fit passes.
function quota.refuses(q, count, bytes)
  if quota.manager_refuses(count, bytes) then return status.ENQUEUE_MANAGER_QUOTA end
  if quota.exceeds_queue(q, count, bytes) then return status.ENQUEUE_QUEUE_QUOTA end
end

-- Is the manager throttled, or would its quota be exceeded?
function quota.manager_refuses(count, bytes)
  return context.manager.throttled or quota.exceeds_manager(count, bytes)
end

-- Would the quota of the manager be exceeded?
function quota.exceeds_manager(count, bytes)
  local manager = context.manager
  return manager.quota_messages and context.messages + count > manager.quota_messages
    or manager.quota_bytes and context.bytes + bytes > manager.quota_bytes
end

-- Would the quota of the queue be exceeded, in which its subqueues count, too?
function quota.exceeds_queue(q, count, bytes)
  if q.quota_messages or q.quota_bytes then queue.read_subqueue_totals(q) end
  return q.quota_messages and q.messages + q.sub_messages + count > q.quota_messages
    or q.quota_bytes and q.bytes + q.sub_bytes + bytes > q.quota_bytes
end

-- Do `count` messages fit into a queue beside the one the script works on? What is copied there leaves elsewhere, so flow control
-- does not stop it.
function quota.fits(q, count, bytes)
  return not (quota.exceeds_manager(count, bytes) or quota.exceeds_queue(q, count, bytes))
end
