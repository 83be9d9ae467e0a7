-- What became of a call whose reply was lost. If it never ran, it never will: its place is taken here.
-- docs/guarantees.md
--
-- KEYS message
-- ARGV[3] slot  of the token in question
-- ARGV[4] sequence  of the token in question
-- RETURNS OK done | never | superseded | expired (its session), then the status and payload of the reply if done
-- FLAGS allow-oom
--- require "core/context"
local slot, sequence = ARGV[3], ARGV[4]
local reply = context.open()
if reply then return reply end
local session = string.match(slot, "^%d+")
local found = redis.call("HMGET", KEYS[1], session, slot)
if not found[1] then return context.close({ status.OK, "", 0, "expired" }) end
local text = found[2] or "0 0 - 0 0 "
text = context.slot_of(text, sequence) or text
local last, ids = context.slot_head(text)
-- "!": a lock that was handed over, but not asked for (waiting/handoff).
if tonumber(last) < tonumber(sequence) or (last == sequence and string.sub(ids, 1, 1) == "!") then
  context.mark_changed()
  local cancelled = { status.OPERATION_CANCELLED, "", context.history }
  redis.call("HSET", KEYS[1], slot, context.format_slot(sequence, "-", cancelled, 3))
  -- The slot may be higher than all that ever wrote: its session has to know it.
  local mine = session == string.match(ARGV[1], "^%d+") and context.session
  local known = context.highest(mine or found[1], slot)
  if known then
    redis.call("HSET", KEYS[1], session, known)
    if mine then context.session = false end -- it is known here that this call's slot is lower
  end
  return context.close({ status.OK, "", 0, "never" })
end
if last ~= sequence then return context.close({ status.OK, "", 0, "superseded" }) end
local _, stored = context.parse_slot(text)
reply = { status.OK, "", 0, "done", stored[1], ids }
for n = 4, #stored do reply[#reply + 1] = stored[n] end
return context.close(reply)
