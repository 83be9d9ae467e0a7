--- require "lib/record"
-- Messages inside a reply: three elements each, id, state, record with its body.
local message = {}

-- Deliveries of the state handed out: this reading included when it took or locked the message.
function message.append(q, reply, e)
  local st, rec = e.st, e.rec
  if record.flag(rec, 8) then rec = rec .. (redis.call("HGET", q.m, "^" .. e.lid) or "") end
  reply[#reply + 1] = e.lid
  reply[#reply + 1] = e.seen or st and record.counts(st) or ""
  reply[#reply + 1] = rec
end
