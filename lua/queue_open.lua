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
-- RETURNS OK generation, flags, largest message in bytes
-- RETURNS QUEUE_NOT_FOUND there is no queue, or no parent, of this name
-- RETURNS SHARING_VIOLATION another handle excludes this one
-- FLAGS allow-oom
--- require "admin/create"
--- require "core/context"
--- require "core/queue"
--- require "core/handle"
local name, number, access, share = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local key, is_subqueue = KEYS[6], #KEYS > 13
local reply = context.open()
if reply then return reply end
local q, parent = queue.open(1, 5), queue.open(2, 5)
if not parent and (not q or is_subqueue) then return context.close({ status.QUEUE_NOT_FOUND }) end
local encoded = string.match(key, ":q:([^:]+):q$")
local open = handle.all(encoded)
for n = 1, #open do
  if not handle.allows(open[n], access, share) then return context.close({ status.SHARING_VIOLATION }) end
end
context.mark_changed()
if not q then
  create.queue(key, name, "flags", parent.flags, "max_bytes", parent.max_bytes)
  q = queue.open(1, 5)
end
queue.set_parent(q, parent)
handle.add(encoded, number, access, share)
return context.close({ status.OK, "", 0, q.generation, q.flags, q.max_bytes })
