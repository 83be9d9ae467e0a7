-- What became of a call whose reply was lost. If it never ran, it never will: its place is taken here.
-- docs/guarantees.md
--
-- KEYS message
-- ARGV[3] slot  of the token in question
-- ARGV[4] sequence  of the token in question
-- RETURNS OK done | never | superseded | expired (its session), then the status and payload of the reply if done
-- FLAGS allow-oom
--- require "core/context"
--- require "core/replay"
local reply = context.open()
if reply then return reply end
local kept = redis.call("HMGET", KEYS[1], string.match(ARGV[3], "^%d+"), ARGV[3])
if not kept[1] then return context.close({ status.OK, "", 0, "expired" }) end
local own = kept[2] or "0 0 - 0 0 "
local last, ids, stored = string.match(context.kept(own, ARGV[4]) or own, "^(%d+) %d+ (%S+) (%d+ %d+ .*)$")
-- "!": what was handed over was not asked for (waiting/handoff).
if tonumber(last) < tonumber(ARGV[4]) or (last == ARGV[4] and string.byte(ids) == 33) then
  context.mark_changed()
  redis.call("HSET", KEYS[1], ARGV[3], ARGV[4] .. " " .. string.format("%.0f", context.now) .. " - "
    .. string.format("%.0f %.0f ", status.OPERATION_CANCELLED, context.history))
  -- The slot may be higher than all that ever wrote: its session has to know it.
  local session = string.match(ARGV[3], "^%d+")
  local mine = session == string.match(ARGV[1], "^%d+") and context.enlist
  local text = context.highest(mine or kept[1], ARGV[3])
  if text then
    redis.call("HSET", KEYS[1], session, text)
    if mine then context.enlist = context.highest(text, ARGV[1]) end
  end
  return context.close({ status.OK, "", 0, "never" })
end
if last ~= ARGV[4] then return context.close({ status.OK, "", 0, "superseded" }) end
stored = replay.decode(stored)
reply = { status.OK, "", 0, "done", stored[1], ids }
for n = 4, #stored do reply[#reply + 1] = stored[n] end
return context.close(reply)
