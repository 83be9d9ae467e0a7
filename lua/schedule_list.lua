-- The schedules of a queue manager, or those whose time has come. Changes nothing.
-- docs/worker.md
--
-- CALLERS listing in mqredis/commands/schedules.py
-- KEYS message
-- KEYS schedules, schedules:messages (admin/schedules)
-- ARGV[3] due  "1": only those whose time has come, without their messages; "0": all
-- RETURNS OK now in ms, the first time to come in ms or 0, then of each schedule: name, text, message
-- FLAGS no-writes
--- require "core/context"
-- Change together with: mqredis/codec/schedules.py, whose texts begin with the next time in ms, 0 for a schedule that is paused.
-- Tests: tests/operator/test_schedules.py, tests/worker/test_schedule.py.
local definitions, messages, only_due = KEYS[#KEYS - 1], KEYS[#KEYS], ARGV[3] == "1"
local reply = context.observe()
if reply then return reply end
-- Times are as users are shown them. first: the first one to come; rows: the elements of the schedules in the reply.
local now, first, rows = context.shown(context.now), 0, {}
local names_texts = redis.call("HGETALL", definitions)
for n = 1, #names_texts, 2 do
  local name, text = names_texts[n], names_texts[n + 1]
  local next_time = tonumber(string.match(text, "^%d+"))
  if next_time > now and (first == 0 or next_time < first) then first = next_time end
  if not only_due then
    context.append(rows, name, text, redis.call("HGET", messages, name) or "")
  elseif next_time > 0 and next_time <= now then
    context.append(rows, name, text, "")
  end
end
reply = context.reply(status.OK, string.format("%.0f", now), string.format("%.0f", first))
for n = 1, #rows do reply[#reply + 1] = rows[n] end
return context.close(reply)
