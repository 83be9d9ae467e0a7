--- require "core/context"
--- require "core/position"
--- require "claims/claim"
--- require "claims/claim_pages"
--- require "claims/claim_plain"
-- The messages of a claim that is committed: they are received, whatever comes, and leave a page at a time.
local claim_drain = {}

-- Removes a page. Returns how many messages, and c.draining is nothing once that were the last ones; or returns nothing,
-- and has done nothing, if context.missing names queues that it takes.
function claim_drain.page(q, c)
  local book, score, most = claim_pages.book(q, c.draining), claim.score(c.draining), claim.run
  if book and book.packed > 0 and not queue.has(q, "j") then return claim_drain.packed(q, c, book, score) end
  local count = not (book and book.packed > 0) and claim_plain.finish(q, score)
  if not count then
    local ids = claim_pages.front(q, c.draining, claim.page)
    count, most = #ids, claim.page
    if not claim_drain.look(q, ids) then return end
  end
  if count < most then claim_drain.done(q, c, book) end
  return count
end

-- A page of which nothing needs to be read.
function claim_drain.packed(q, c, book, score)
  local count = claim_pages.receive(q, book)
  local over = book.packed == 0 or book.from >= book.upto
  if over and redis.call("ZCOUNT", q.l, score, score) == 0 then claim_drain.done(q, c, book) end
  return count
end

function claim_drain.done(q, c, book)
  c.draining = nil
  if book then claim_pages.trim(q, book) end
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
  if context.missing then return false end
  if #kept > 0 then position.finish(q, kept, "receive") end
  if #purged > 0 then position.finish(q, purged, "queue_purged") end
  return true
end
