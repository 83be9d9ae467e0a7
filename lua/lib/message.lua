--- require "lib/record"
-- Messages inside a reply: three elements each, id, state, record with its body.
local message = {}

-- Deliveries of the state handed out: this reading included when it took or locked the message.
function message.append(q, reply, e)
  message.all(q, reply, { e })
end

function message.all(q, reply, entries)
  local at, byte = #reply, string.byte
  for n = 1, #entries do
    local e = entries[n]
    local st, rec = e.st, e.rec
    local flag = byte(rec, 14)
    if flag ~= 48 and flag ~= 104 and record.flag(rec, 8) then
      rec = rec .. (redis.call("HGET", q.m, "^" .. e.lid) or "")
    end
    reply[at + 1] = e.lid
    reply[at + 2] = e.seen or st and record.counts(st) or ""
    reply[at + 3] = rec
    at = at + 3
  end
end
