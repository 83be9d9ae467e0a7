-- Remove the marks of a browser that was closed, up to 500 in a call.
-- IBM MQ MQGMO_MARK_BROWSE_HANDLE; docs/semantics-matching.md, "Browsing"
--
-- CALLERS forget_marks in mqredis/commands/contents.py
-- KEYS message
-- QUEUE[1] the queue
-- ARGV[3] generation  of the queue behind the handle
-- ARGV[4] browser  "<session>-<number>"
-- RETURNS OK how many were removed: 0 when none is left; the client repeats the call until then
-- RETURNS QUEUE_NOT_AVAILABLE
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "matching/mark"
-- Tests: tests/matching/test_browse.py, test_long_lists.py.
local generation, browser = ARGV[3], ARGV[4]
local reply = context.open()
if reply then return reply end
local q = queue.open(1)
if not q or q.generation ~= generation then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
local removed = mark.forget(q, browser, 500)
if removed > 0 then context.mark_changed() end
return context.close(context.reply(status.OK, removed))
