--- require "core/context"
--- used by core/context
-- Answers a call that is repeated, since its client got no reply, with the reply that its slot keeps. The form of what is kept is
-- that of core/context; admin/operator does the same for tokens of operators, which have keys of their own. Tests:
-- tests/reliability/test_calls.py repeats calls, tests/drivers/test_faults.py loses their replies.
local replay = {}

-- Returns the reply of a call whose sequence is not newer than that of its slot; nil if the entry script has to complete it:
-- then context.again names the messages that it reads again (message.again, for receive.lua and lookup.lua: those that give
-- context.close `ids`), or context.handover the lock that was handed over (receive.lua, stop_waiting.lua).
function replay.answer(kept)
  local text = context.reply_of_call(kept, ARGV[2])
  if not text then return { status.TOKEN_REUSED, context.incarnation, context.history } end
  -- WAIT and WAITAOF of a connection count what this connection wrote (Redis 7.2): a repeated call on a new one writes
  -- what is there already. A full server may refuse that; then no client is told that the change got further.
  redis.pcall("HSET", KEYS[1], ARGV[1], kept)
  local reply, ids, handed = context.parse_reply(text), context.reply_ids(text)
  if ids == "-" then return reply end
  if handed then
    context.handover = { id = handed, reply = reply }
  else
    context.again = { ids = ids, reply = reply }
  end
end
