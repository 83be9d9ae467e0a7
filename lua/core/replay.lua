--- require "core/context"
-- A call that is repeated, because its client got no reply: it is answered with the reply that its slot keeps.
local replay = {}

-- The reply of a call whose sequence is not newer than that of its slot. Nothing, if the entry script has to complete it:
-- then context.again names the messages that it reads again, or context.handover the lock that was handed over.
function replay.answer(slot)
  local kept = context.slot_of(slot, ARGV[2])
  if not kept then return { status.TOKEN_REUSED, context.incarnation, context.history } end
  -- WAIT and WAITAOF of a connection count what this connection wrote (Redis 7.2): a repeated call on a new one writes
  -- what is there already. A full server may refuse that; then no client is told that the change got further.
  redis.pcall("HSET", KEYS[1], ARGV[1], slot)
  local ids, reply = context.parse_slot(kept)
  if ids == "-" then return reply end
  if string.sub(ids, 1, 1) == "!" then
    context.handover = { lid = string.sub(ids, 2), reply = reply }
  else
    context.again = { ids = ids, reply = reply }
  end
end
