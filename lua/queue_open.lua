-- Open a handle: the access and share mode must agree with the handles that are open already.
-- MS-MQDMPR 3.1.7.1.5 Open Queue
--
-- KEYS admin
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue: opening creates the subqueue
-- ARGV[3] name  as written, with its subqueue
-- ARGV[4] handle  number, unique in the session
-- ARGV[5] access  receive | send | peek | move | admin | all
-- ARGV[6] share  none | deny
-- RETURNS OK generation, flags, largest message in bytes
-- RETURNS QUEUE_NOT_FOUND
-- RETURNS SHARING_VIOLATION
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/handle"
local reply = context.open()
if reply then return reply end
local q, parent = queue.open(1, 5), queue.open(2, 5)
if not parent and (not q or #KEYS > 13) then return context.close({ status.QUEUE_NOT_FOUND }) end
local name = string.match(KEYS[6], ":q:([^:]+):q$")
local open = handle.all(name)
for n = 1, #open do
  if not handle.allows(open[n], ARGV[5], ARGV[6]) then return context.close({ status.SHARING_VIOLATION }) end
end
context.mark_changed()
if not q then
  local generation = string.format("%.0f", redis.call("HINCRBY", KEYS[1], "generations", 1))
  queue.create(KEYS[6], generation, "flags", parent.flags, "max_bytes", parent.max_bytes)
  redis.call("HSET", KEYS[3], ARGV[3], generation)
  q = queue.open(1, 5)
end
queue.set_parent(q, parent)
local session = string.match(ARGV[1], "^%d+")
redis.call("ZADD", KEYS[4], 0, name .. "|" .. session .. "|" .. ARGV[4] .. "|" .. ARGV[5] .. "|" .. ARGV[6])
return context.close({ status.OK, "", 0, q.generation, q.flags, q.max_bytes })
