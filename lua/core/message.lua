--- require "core/record"
--- require "core/message_state"
-- Messages inside a reply, none of them nothing: their ids (16 digits each, nothing between them); what is told of their
-- states, "deliveries aborts moves last_move_ms" or "" each, "," between them, one for all if they are alike; then each
-- record, and behind one with flag bit 8 its body.
local message = {}

-- Deliveries of the state handed out: this reading included when it took or locked the message.
function message.all(q, reply, entries)
  local first, at, ids, told, byte, free = #reply + 1, #reply + 2, {}, {}, string.byte, record.free
  if #entries == 0 then return end
  reply[first], reply[at] = "", ""
  for n = 1, #entries do
    local e = entries[n]
    local st, rec = e.st, e.rec
    ids[n], told[n] = e.lid, e.seen or st and message_state.counts(st) or ""
    at = at + 1
    reply[at] = rec
    if not free[byte(rec, 14)] and record.flag(rec, 8) then
      at = at + 1
      reply[at] = redis.call("HGET", q.m, "^" .. e.lid) or ""
    end
  end
  reply[first], reply[first + 1] = table.concat(ids), table.concat(told, ",")
end

-- The same of messages that position.grant has locked.
function message.plain(reply, ids, recs)
  local at = #reply + 2
  reply[at - 1], reply[at] = table.concat(ids), "1 0 0 0"
  for n = 1, #recs do reply[at + n] = recs[n] end
end
