-- Open a handle on a queue; access and share mode must agree with the handles that are open already. Opening a subqueue
-- creates it.
-- MS-MQDMPR 3.1.7.1.5 Open Queue
--
-- CALLERS open_handle in mqredis/commands/queues.py
-- KEYS admin
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] name  as written, with its subqueue
-- ARGV[4] handle  number, unique in the session
-- ARGV[5] access  receive | send | peek | move | admin | all
-- ARGV[6] share  none | deny
-- RETURNS OK generation, flags, largest message in bytes; of a subqueue as they were when it was created
-- RETURNS QUEUE_NOT_FOUND there is no queue, or no parent, of this name
-- RETURNS SHARING_VIOLATION another handle excludes this one
-- FLAGS allow-oom
--- require "admin/create"
--- require "core/context"
--- require "core/queue"
--- require "core/handle"
--- require "core/session"
-- Change together with: core/handle, mqredis/operations/handle.py and mqredis/models/enums.py, for another access or share mode;
-- queue_close.lua. Tests: tests/conformance/test_open.py.
local name, number, access, share = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local key = queue.nth_key(1, queue.admin_keys)
local reply = context.open()
if reply then return reply end
-- No store.save at the end: neither is changed here.
local q, parent = queue.read(1, queue.admin_keys), queue.read(2, queue.admin_keys)
local is_subqueue = queue.count_keys(queue.admin_keys) > 1
if is_subqueue and not parent or not is_subqueue and not q then return context.close({ status.QUEUE_NOT_FOUND }) end
local encoded = queue.name_of_key(key)

-- Do the handles that are open allow this one?
local function allowed()
  local open = handle.all(encoded)
  for n = 1, #open do
    if not handle.allows(open[n], access, share) then return false end
  end
  return true
end

if not allowed() then
  session.sweep() -- the handle of a client that died goes with its session
  if not allowed() then return context.close({ status.SHARING_VIOLATION }) end
end
context.mark_changed()
if not q then -- a subqueue is created when it is opened first; a handle needs only flags that never change
  create.queue(key, name, "flags", parent.flags, "max_bytes", parent.max_bytes)
  q = queue.read(1, queue.admin_keys)
end
handle.add(encoded, number, access, share)
return context.close(context.reply(status.OK, q.generation, q.flags, q.max_bytes))
