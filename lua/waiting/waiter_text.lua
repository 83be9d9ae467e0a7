--- require "core/context"
--- used by cancel, claim_wait, peek, receive, stop_waiting, waiter_list, waiting/handoff, waiting/match_waiters, waiting/notify,
---   waiting/waiters
-- The two texts that are stored for a reader that waits. This module alone writes them. core/context reads the second one with the
-- slot, and core/session removes it with its session.
--
-- Change together with: kind, mode, tag and lease come from the client (register_as in mqredis/commands/waiting.py, which has
-- the letters; mqredis/drivers/waiting/mode.py chooses the mode); the doctor checks both texts (`_WAITER` and the
-- letters in mqredis/operations/doctor/checks/sessions.py). tests/contract/test_constants.py compares these. What is handed over is
-- taken by receive.lua, peek.lua, claim_wait.lua and stop_waiting.lua: each heeds every name in `handed` that it may get.
--
-- A member of q.waiters: "<slot> <kind> <mode> <tag>[,<lease>][ <filter>]", for example "12.3 D k0 -,30000".
--
--   slot    of the reader's session, "<session>.<number>"
--   kind    D takes messages, C takes them with a cursor, P peeks
--   mode    how it is notified: k<database> by a keyspace notification, p<database> by PUBLISH on the same channel
--   tag     ends the wait from another client (cancel.lua), encoded; "-": none
--   lease   ms: the reader waits for one lock of any message, which may be handed to it (waiting/handoff)
--   filter  of a reader that wants particular messages (matching/filter, waiting/match_waiters)
--
-- Field "<slot>!" of meta, what was handed to the reader while it waited; the first letter is a key of `handed`:
--
--   "h <id>"  notified   it was notified of this message
--   "n <id>"  part       it was notified of this message, and may take another one of the same group
--   "m <id> <state>" LF <record> <large body>     copy      of a message, for a peek; state: as message_state.shown, may be empty
--   "c <status>"         cancelled   its wait was ended with this status
local waiter_text = {
  peeks = "P", takes = "D",
  handed = { h = "notified", n = "part", m = "copy", c = "cancelled" },
}

-- Members ---------------------------------------------------------------------------------------------------------------

-- Returns the member for the reader of this call. `registration`: "<kind> <mode> <tag>[,<lease>]", as the client sends it;
-- `filter_text`: "" for none.
function waiter_text.member(registration, filter_text)
  return ARGV[1] .. " " .. registration .. (filter_text ~= "" and " " .. filter_text or "")
end

-- Returns slot, kind and mode of a member.
function waiter_text.parse(member)
  return string.match(member, "^(%S+) (%S) (%S+)")
end

-- Returns the tag of a member.
function waiter_text.tag(member)
  return string.match(member, "^%S+ %S %S+ ([^ ,]+)")
end

-- Returns the filter of a member; nil if it has none.
function waiter_text.filter(member)
  return string.match(member, "^%S+ %S %S+ %S+ (.*)$")
end

-- Returns slot, database and lease in ms, as texts, of a reader that waits for one lock; nil for any other.
function waiter_text.parse_lock(member)
  return string.match(member, "^(%S+) D [kp](%d+) [^ ,]*,(%d+)$")
end

-- Does a member's reader take messages, with a cursor or without?
function waiter_text.is_taking(member)
  local _, kind = waiter_text.parse(member)
  return kind ~= waiter_text.peeks
end

-- What is handed over ---------------------------------------------------------------------------------------------------

-- Tells a reader that it may have this message.
function waiter_text.hand_message(slot, id)
  redis.call("HSET", KEYS[1], slot .. "!", "h " .. id)
end

-- Tells a reader that it may have this message, or another one of its group.
function waiter_text.hand_part(slot, id)
  redis.call("HSET", KEYS[1], slot .. "!", "n " .. id)
end

-- Gives a peek the message that it waited for. `shown`: of message_state.shown; large_body: "" if the body is in the record.
function waiter_text.hand_copy(slot, id, shown, rec, large_body)
  redis.call("HSET", KEYS[1], slot .. "!", "m " .. id .. " " .. shown .. "\n" .. rec .. large_body)
end

-- Returns lookup id, state and record of a copy, from the second result of waiter_text.take; the record may have its large body
-- behind it.
function waiter_text.parse_copy(text)
  return string.match(text, "^(%x+) ([%d ]*)\n(.*)$")
end

-- Ends the wait of a reader with this status.
function waiter_text.cancel(slot, code)
  redis.call("HSET", KEYS[1], slot .. "!", "c " .. code)
end

-- Takes what was handed to the reader of this call: returns its name (a value of waiter_text.handed) and the text behind letter
-- and space; nil if nothing was. Only after context.open(true), which reads it.
function waiter_text.take()
  local text = context.handed
  if not text then return end
  redis.call("HDEL", KEYS[1], ARGV[1] .. "!")
  return waiter_text.handed[string.sub(text, 1, 1)], string.sub(text, 3)
end

-- Returns the lookup id of the message that the reader of this call was notified of; nil if it was not, or if the call does not
-- wait (context.open).
function waiter_text.notified_of()
  return string.match(context.handed or "", "^[hn] (%x+)$")
end
