--- require "lib/frame"
--- require "lib/position"
--- require "lib/claim"
--- require "lib/claim_plain"
-- The messages of a claim that is committed: they are received, whatever comes, and leave a page at a time.
local claim_drain = {}

-- Removes a page. Returns how many messages, and c.draining is nothing once that were the last ones; or returns nothing,
-- and has done nothing, if frame.missing names queues that it takes.
function claim_drain.page(q, c)
  local score, most = claim.score(c.draining), claim.run
  local count = claim_plain.finish(q, score)
  if not count then
    local ids = redis.call("ZRANGEBYSCORE", q.l, score, score, "LIMIT", 0, claim.page)
    count, most = #ids, claim.page
    if not claim_drain.look(q, ids) then return end
  end
  if count < most then c.draining = nil end
  return count
end

-- With a look at each of them: those that were purged before the commit leave as purged.
function claim_drain.look(q, ids)
  local entries, kept, purged = position.read(q, ids), {}, {}
  for n = 1, #entries do
    local to = string.find(entries[n].st.kind, "P", 1, true) and purged or kept
    to[#to + 1] = entries[n]
  end
  position.may_leave(q, kept, "receive")
  position.may_leave(q, purged, "queue_purged")
  if frame.missing then return false end
  if #kept > 0 then position.finish(q, kept, "receive") end
  if #purged > 0 then position.finish(q, purged, "queue_purged") end
  return true
end
