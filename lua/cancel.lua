-- End the wait of the first reader that waits on the queue under a tag.
-- MS-MQDMPR 3.1.7.1.17 Cancel Waiting Message Read Request
--
-- CALLERS cancel in mqredis/commands/waiting.py
-- KEYS message
-- QUEUE[1] the queue
-- ARGV[3] generation  of the queue behind the handle
-- ARGV[4] tag  encoded
-- ARGV[5] status  the number of the status with which its wait ends
-- RETURNS OK
-- RETURNS STATUS_NOT_FOUND no reader waits under this tag
-- RETURNS QUEUE_NOT_AVAILABLE
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "waiting/waiters"
--- require lazy "waiting/waiter_text"
--- require "waiting/notify"
-- Change together with: receive.lua, which ends with the status that this script hands to its reader ("cancelled" of
-- waiting/waiter_text); peeks have no tag. Tests: tests/conformance/test_cancel.py.
local generation, wanted_tag, code = ARGV[3], ARGV[4], ARGV[5]
local reply = context.open()
if reply then return reply end
local q = queue.open(1)
if not q or q.generation ~= generation then return context.close({ status.QUEUE_NOT_AVAILABLE }) end

local member -- the first one of q.waiters with this tag
for _, other in ipairs(redis.call("ZRANGE", q.waiters, 0, -1)) do
  if waiter_text.tag(other) == wanted_tag then
    member = other
    break
  end
end
if not member then return context.close({ status.STATUS_NOT_FOUND }) end

-- The reader is notified as of a message. It calls again, and finds in its slot the status with which it ends.
local slot, _, mode = waiter_text.parse(member)
waiters.drop(q, member, waiter_text.filter(member) or "")
waiter_text.cancel(slot, code)
reply = context.close({ status.OK })
notify.one(slot, mode)
return reply
