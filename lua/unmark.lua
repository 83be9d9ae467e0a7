-- Forget the marks of a browser that is closed, a few hundred at a time.
-- IBM MQ MQGMO_MARK_BROWSE_HANDLE; docs/semantics-matching.md, "Browsing"
--
-- KEYS message
-- QUEUE[1] the queue
-- ARGV[3] generation  of the queue behind the handle
-- ARGV[4] browser  "<session>-<number>"
-- RETURNS OK how many were forgotten: 0 when none is left
-- RETURNS QUEUE_NOT_AVAILABLE
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
local reply = context.open()
if reply then return reply end
local q = queue.open(1, 2)
if not q or q.generation ~= ARGV[3] then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
local stem = "y" .. ARGV[4] .. "\0"
local marks = redis.call("ZRANGEBYLEX", q.i, "[" .. stem, "(" .. stem .. "\255", "LIMIT", 0, 500)
if #marks > 0 then
  redis.call("ZREM", q.i, unpack(marks))
  context.mark_changed()
end
return context.close({ status.OK, "", 0, #marks })
