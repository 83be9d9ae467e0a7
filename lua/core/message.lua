--- require "core/context"
--- require "core/message_state"
--- require "core/position"
--- require "core/record"
--- used by lookup, message_list, peek, receive, waiting/handoff
-- Messages inside a reply, none of them nothing: their ids (16 digits each, nothing between them); what is told of their
-- states, message_state.shown or "" each, "," between them, one for all if they are alike; then each
-- record, and behind one with flag bit 8 its body.
local message = {}

-- Appends messages. `told`: of each state, or one text for all; the delivery by this call is in it if it locks.
function message.add(q, reply, ids, recs, told)
  if not ids[1] then return end
  local at, byte, free = #reply + 2, string.byte, record.free
  told = type(told) == "table" and table.concat(told, ",") or told
  if context.lead > 0 then told = message.shown(told) end
  reply[at - 1], reply[at] = ids[2] and table.concat(ids) or ids[1], told
  for n = 1, #ids do
    local rec = recs[n]
    at = at + 1
    reply[at] = context.lead > 0 and record.shown(rec, context.lead) or rec
    if not free[byte(rec, 14)] and record.has_large_body(rec) then
      at = at + 1
      reply[at] = redis.call("HGET", q.records, "^" .. ids[n]) or ""
    end
  end
end

-- What is told of states, with the times of moves as users are shown them.
function message.shown(told)
  return (string.gsub(told, "(%d+ %d+ %d+ )(%d+)", function(before, moved)
    return before .. (moved == "0" and "0" or string.format("%d", context.shown(moved)))
  end))
end

-- What is told of states as they are.
function message.told(states, count)
  local told = { nil }
  for n = 1, count do told[n] = states[n] and message_state.shown(states[n]) or "" end
  return told
end

-- The reply of a call that is repeated: the messages that it had found are read again (context.again).
function message.again(q)
  local ids = { nil }
  for id in string.gmatch(context.again.ids, "%x+") do ids[#ids + 1] = id end
  message.all(q, context.again.reply, q and position.read(q, ids) or {})
  return context.again.reply
end

-- As message.add, for entries.
function message.all(q, reply, entries)
  local ids, recs, told = { nil }, { nil }, { nil }
  for n = 1, #entries do
    local e = entries[n]
    ids[n], recs[n], told[n] = e.lid, e.rec, e.seen or e.st and message_state.shown(e.st) or ""
  end
  message.add(q, reply, ids, recs, told)
end
