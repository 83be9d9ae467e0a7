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
-- Change together with: mqredis/codec/schedules.py; a text begins with its next time in ms.
local definitions, messages, due = KEYS[#KEYS - 1], KEYS[#KEYS], ARGV[3] == "1"
local reply = context.observe()
if reply then return reply end
local now, first = context.shown(context.now), 0
reply = context.reply(status.OK, string.format("%.0f", now), 0)
local found = redis.call("HGETALL", definitions)
for n = 1, #found, 2 do
  local at = tonumber(string.match(found[n + 1], "^%d+"))
  local over = at > 0 and at <= now
  if at > now and (first == 0 or at < first) then first = at end
  if over or not due then
    context.append(reply, found[n], found[n + 1], not due and redis.call("HGET", messages, found[n]) or "")
  end
end
reply[5] = string.format("%.0f", first)
return context.close(reply)
