-- Create missing queues of the broker: those of the system, journals, ;retry, ;lapsed, ;poison and ;trash; and subqueues to which
-- messages are restored. A subqueue whose parent does not exist is skipped. A client calls it after a script has
-- returned KEYS_CHANGED.
-- MS-MQDMPR 3.1.1.1 SystemDeadletterQueue, 3.1.1.2 JournalQueueReference
--
-- CALLERS ensure in mqredis/commands/queues.py
-- KEYS admin
-- QUEUE[1+] the queues to create, then their parents
-- ARGV[3+] name  of each queue to create, not encoded; each has a ";"
-- RETURNS OK
-- FLAGS allow-oom
--- require "admin/create"
--- require "core/context"
--- require "core/queue"
--- require "features/other_queues"
-- Change together with: mqredis/keys.py, whose kept_by_broker says which queues these are; queue_config.letters, for the letters of
-- flags. Tests: tests/msmq/test_traces.py, test_retry.py, whose queues come into being here.
-- Largest message of a queue that is created here, in bytes. Subqueues but journals share the limit of their queue instead
-- (queue.set_parent).
local limit = 64 * 1024 * 1024
local reply = context.open()
if reply then return reply end
for n = 1, #ARGV - 2 do
  local name, flags = ARGV[n + 2], nil -- flags: nil if it is not to be created
  local parent_name, suffix = string.match(name, "^(.-);(.*)$")
  if parent_name == "system$" then
    flags = suffix == "deadxact" and "st" or "s" -- s: system queue, t: transactional
  else
    local parent = other_queues.find(other_queues.encode(parent_name))
    if parent then flags = suffix == "journal" and "s" or parent.flags end
  end
  if flags and not queue.open(n, queue.admin_keys) then
    create.queue(queue.nth_key(n, queue.admin_keys), name, "flags", flags, "max_bytes", limit)
  end
end
return context.close({ status.OK })
