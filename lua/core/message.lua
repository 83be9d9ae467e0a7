--- require "core/context"
--- require "core/message_state"
--- require "core/position"
--- require "core/record"
--- used by lookup, message_list, peek, receive, waiting/handoff
-- Messages in a reply (mqredis/commands reads them). If there are any, these elements:
--
--   ids      16 digits each, nothing between them
--   states   message_state.shown of each, or "", with "," between them; one for all if they are the same
--   records  one element each; behind a record with the flag large its body
local message = {}

-- Appends messages to a reply. `told`: what is shown of the states, a list or one text for all.
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

-- Returns `told` with the times of moves as users are shown them.
function message.shown(told)
  return (string.gsub(told, "(%d+ %d+ %d+ )(%d+)", function(before, moved)
    return before .. (moved == "0" and "0" or string.format("%d", context.shown(moved)))
  end))
end

-- Returns what is shown of `count` states.
function message.told(states, count)
  local told = { nil }
  for n = 1, count do told[n] = states[n] and message_state.shown(states[n]) or "" end
  return told
end

-- Returns the reply of a repeated call (context.again), with the messages that the call had found, read again.
function message.again(q)
  local ids = { nil }
  for id in string.gmatch(context.again.ids, "%x+") do ids[#ids + 1] = id end
  message.all(q, context.again.reply, q and position.read(q, ids) or {})
  return context.again.reply
end

-- Appends entries to a reply.
function message.all(q, reply, entries)
  local ids, recs, told = { nil }, { nil }, { nil }
  for n = 1, #entries do
    local e = entries[n]
    ids[n], recs[n], told[n] = e.lid, e.rec, e.seen or e.st and message_state.shown(e.st) or ""
  end
  message.add(q, reply, ids, recs, told)
end
