-- What became of a call whose reply was lost. If it never ran, it never will: its place is taken here.
-- docs/guarantees.md
--
-- CALLERS resolve in mqredis/commands/manager.py
-- KEYS message
-- ARGV[3] slot  of the token in question
-- ARGV[4] sequence  of the token in question
-- RETURNS OK done | never | superseded (the slot keeps the reply of a later call) | expired (its session); if done then the status
--   of the reply, the ids that the call has found (context.format_reply), and the payload
-- FLAGS allow-oom
--- require "core/context"
-- Change together with: mqredis/commands/manager.py, which takes a stored KEYS_CHANGED or OPERATION_CANCELLED for a call that has
-- done nothing (_NOTHING_DONE). Tests: tests/client/test_interrupted_reads.py, tests/reliability/test_handoff.py;
-- for the slots of a session, tests/reliability/test_regressions.py.
local slot, sequence = ARGV[3], ARGV[4]
local reply = context.open()
if reply then return reply end
local session = context.session_of(slot)
local found = redis.call("HMGET", KEYS[1], session, slot)
local session_text, kept = found[1], found[2]
if not session_text then return context.close(context.reply(status.OK, "expired")) end

-- The slot keeps the reply of its last call: this one, a later one, or an earlier one.
local own_reply = kept and context.reply_of_call(kept, sequence)
if own_reply then
  local ids, was_handed = context.reply_ids(own_reply)
  if not was_handed then
    local stored = context.parse_reply(own_reply)
    reply = context.reply(status.OK, "done", stored[1], ids)
    for n = 4, #stored do reply[#reply + 1] = stored[n] end
    return context.close(reply)
  end
  -- A sender has written this reply with a lock for the call (waiting/handoff), which never ran. The lock lapses.
elseif kept and context.is_later(context.reply_sequence(kept), sequence) then
  return context.close(context.reply(status.OK, "superseded"))
end

-- It never ran: its slot gets a refusal as its reply, with which a late copy of the request is answered.
context.mark_changed()
local refusal = { status.OPERATION_CANCELLED }
redis.call("HSET", KEYS[1], slot, context.format_reply(sequence, "-", refusal))
-- The slot may be higher than all that its session has used: then the session has to know of it. If this call belongs to the
-- same session, its own slot is lower, and context.close must not write the session again.
local own = session == context.owner()
local known = context.highest(own and context.session or session_text, slot)
if known then
  redis.call("HSET", KEYS[1], session, known)
  if own then context.session = false end
end
return context.close(context.reply(status.OK, "never"))
