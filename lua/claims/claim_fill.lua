--- require "core/context"
--- require "core/position"
--- require "claims/claim"
--- require "claims/claim_pages"
--- require "core/seek"
--- require "core/queue"
--- require lazy "matching/search"
--- require lazy "features/group_lock"
-- Filling a claim from the front of the queue.
local claim_fill = {}

-- Decide: what the next page takes, and what has expired on the way. Nothing if context.missing names queues that it
-- takes.
function claim_fill.page(q, c, most_bytes, after, bound, text, place)
  local count = math.min(claim.page, c.wanted - c.count)
  local page = { take = {}, expired = {}, bytes = 0 }
  local turns = queue.has(q, "x") and not q.parent
  local entries, seen, dry
  if count > 0 and text ~= "" then
    search.load()
    -- Of a group with one active message no second one may be found with it.
    entries, page.place = search.look(q, text, place, turns and 1 or count, nil, true)
    dry = #entries == 0 and not page.place
    page.place = page.place or #entries > 0 and entries[#entries].lid or nil
    entries, seen = claim.between(entries, after, bound), #entries
  elseif count > 0 and turns then
    group_lock.load()
    entries = group_lock.take(q, count)
    seen = #entries
  else
    local ids = count > 0 and claim.ids(q, count, after, bound) or {}
    entries, seen = position.read(q, ids), #ids
  end
  if dry == nil then dry = seen < count end
  page.full = dry or c.count + #entries >= c.wanted
  for n = 1, #entries do
    local e = entries[n]
    if seek.expired(e) then
      page.expired[#page.expired + 1] = e
      page.full = dry
    else
      local size = position.size(q, e)
      if most_bytes and c.count + #page.take > 0 and c.bytes + page.bytes + size > most_bytes then
        page.full = true
        break
      end
      page.bytes = page.bytes + size
      page.take[#page.take + 1] = e
    end
  end
  if position.may_leave(q, page.expired, "receive_timeout") then return page end
end

-- Apply: the claim is sealed when it is full or the queue is dry.
function claim_fill.take(q, c, page)
  if #page.expired > 0 then position.delete(q, page.expired, "receive_timeout") end
  local seq = string.format("%.0f", c.seq)
  if #page.take > 0 then
    local ids, paged = {}, claim_pages.fits(q, c)
    for n = 1, #page.take do ids[n] = page.take[n].lid end
    position.lock(q, page.take, "C", c.owner, seq, claim.score(c.number))
    if paged then claim_pages.add(q, c, ids, #ids, page.bytes, false) end
  end
  c.count, c.bytes = c.count + #page.take, c.bytes + page.bytes
  if page.full then c.sealed = "1" end
end
