-- Create, change or remove a schedule, and perhaps send its message: all of it if the schedule is as the caller saw it, else
-- nothing. A worker that sends the message of a due time writes the next time with the same call, so that each time fires once.
-- docs/worker.md
--
-- CALLERS write in mqredis/commands/schedules.py
-- KEYS message
-- QUEUE[1+] the queue of the schedule, if ARGV[9] names it; the log of actions (admin/operator)
-- KEYS schedules, schedules:messages (admin/schedules), then the key of a token, if ARGV[3] is not "" (admin/operator)
-- ARGV[3] token  as in admin/operator
-- ARGV[4] entry  as in admin/operator
-- ARGV[5] name  of the schedule
-- ARGV[6] expected  the text of the schedule that the caller saw; "" if there was none
-- ARGV[7] text  its new text; "" removes it
-- ARGV[8] message  its new message; "" leaves the one that it has
-- ARGV[9] queue  encoded name of the queue to which its message is sent now; "" sends none
-- ARGV[10] fire_time  the time in seconds for which the message is sent
-- RETURNS OK "1": done; "full": there are as many schedules as there may be; "0", then now in ms, its text and its message ("" if
--   there is none): the schedule is not as expected
-- RETURNS QUEUE_NOT_FOUND
-- RETURNS SCHEDULE_DAMAGED its message is missing or cannot be read
-- RETURNS XACT_E_NOTSUPPORTED the queue is a topic
-- RETURNS PUT_INHIBITED
-- RETURNS MESSAGE_TOO_LARGE
-- RETURNS ENQUEUE_MANAGER_QUOTA
-- RETURNS ENQUEUE_QUEUE_QUOTA
-- RETURNS DUPLICATE
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
--- require "core/context"
--- require "admin/operator"
--- require "admin/schedules"
-- Change together with: mqredis/operations/schedules.py, which decides again if the schedule has become another one; the refusals
-- are those of admin/schedules. Tests: tests/operator/test_schedules.py, tests/worker/test_schedule.py.
local last = operator.last_key() -- the last key but that of the token
local definitions, messages = KEYS[last - 1], KEYS[last]
local name, expected, text, message, target, fire_time = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local reply = context.open()
if reply then return reply end
reply = operator.repeated()
if reply then return reply end

-- decide -----------------------------------------------------------------------------------------
-- All but "1" ends with context.close: the token keeps no refusal, so the next call with it runs.
local current = redis.call("HGET", definitions, name) or ""
local stored = redis.call("HGET", messages, name) or ""
if current ~= expected then
  local now = string.format("%.0f", context.shown(context.now))
  return context.close(context.reply(status.OK, "0", now, current, stored))
end
if current == "" and text ~= "" and redis.call("HLEN", definitions) >= schedules.most then
  return context.close(context.reply(status.OK, "full"))
end
if message == "" then message = stored end
local batch, code
if target ~= "" then
  batch, code = schedules.plan(target, message, fire_time)
  if code and not context.missing then return context.close({ code }) end
end
operator.plan()
if context.missing then return context.close(context.missing) end

-- apply ------------------------------------------------------------------------------------------
context.mark_changed()
if text == "" then
  redis.call("HDEL", definitions, name)
  redis.call("HDEL", messages, name)
else
  redis.call("HSET", definitions, name, text)
  if message ~= stored then redis.call("HSET", messages, name, message) end
end
if batch then schedules.send(batch) end
operator.log(1, true) -- one schedule was changed, and the action has finished
return operator.finish(context.reply(status.OK, "1"))
