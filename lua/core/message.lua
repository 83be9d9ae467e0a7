--- require "core/context"
--- require lazy "core/message_state"
--- require "core/position"
--- require lazy "core/record"
--- used by lookup, message_list, peek, receive, waiting/handoff
-- Replies with messages, which mqredis/commands/read.py parses. If there are any messages, these elements:
--
--   ids      16 digits each, nothing between them
--   states   message_state.shown of each, with "," between them; one for all, if none has a state
--   records  one element each; behind a record with the flag large its body
--
-- Times in them are as users are shown them, without the lead of broker time (core/context). The elements are the last ones of a
-- reply, behind those that the head of the script names.
--
-- Change together with: `_parse_receive` and `_messages` in mqredis/commands/read.py, which parse them; Handoff.reply in
-- mqredis/drivers/waiting/handoff.py, which makes the same reply of a lock that was handed over (tests/client/test_handoff.py
-- compares); mqredis/codec/decode.py, which reads records and states. message_list.lua has rows of its own, and takes only
-- message.without_lead from here.
local message = {}

-- Returns a reply that says that messages were found, to which message.add appends them. `fence` and `deadline` in ms of their
-- lock, "" without one. `lost`: what settle.all tells of lost locks.
function message.found(fence, deadline, lost)
  local reply = { status.OK, "", 0, fence, deadline, context.now_text, lost[1] and #lost or "0",
    nil, nil, nil } -- as of context.reply, with room for one message
  for n = 1, #lost do reply[#reply + 1] = lost[n] end
  return reply
end

-- Appends messages to a reply. `states_text`: the element `states`.
function message.add(q, reply, ids, recs, states_text)
  if not ids[1] then return end
  local at, lead, byte, free, flag_at = #reply, context.lead, string.byte, record.free, record.flag_at
  if lead > 0 then states_text = message.without_lead(states_text) end
  reply[at + 1], reply[at + 2] = ids[2] and table.concat(ids) or ids[1], states_text
  at = at + 2
  for n = 1, #ids do
    local rec = recs[n]
    at = at + 1
    reply[at] = lead > 0 and record.shown(rec, lead) or rec
    if not free[byte(rec, flag_at)] and record.has_large_body(rec) then
      at = at + 1
      reply[at] = redis.call("HGET", q.records, "^" .. ids[n]) or ""
    end
  end
end

-- Returns the element `states` with the times of moves as users are shown them.
function message.without_lead(states_text)
  return (string.gsub(states_text, "(%d+ %d+ %d+ )(%d+)", function(before, moved)
    return before .. (moved == "0" and "0" or string.format("%d", context.shown(moved)))
  end))
end

-- Returns the element `states` for `count` messages, whose states are tables or false. `none`: what is shown of a message
-- without a state.
function message.join_states(states, count, none)
  local any = false
  for n = 1, count do any = any or states[n] end
  if not any then return none end
  local texts = { nil }
  for n = 1, count do texts[n] = states[n] and message_state.shown(states[n]) or none end
  return table.concat(texts, ",")
end

-- Returns the reply of a repeated call (context.again), with the messages that the call had found, read again.
function message.again(q)
  local ids = { nil }
  for id in string.gmatch(context.again.ids, "%x+") do ids[#ids + 1] = id end
  message.add_entries(q, context.again.reply, q and position.read(q, ids) or {}, "")
  return context.again.reply
end

-- Appends entries to a reply. `none` as in message.join_states.
function message.add_entries(q, reply, entries, none)
  local ids, recs, states = position.columns_of(entries)
  message.add(q, reply, ids, recs, message.join_states(states, #ids, none))
end
