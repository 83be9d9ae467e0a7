--- require "lib/frame"
--- require "lib/position"
--- require "lib/claim"
--- require "lib/seek"
--- require "lib/queue"
--- require lazy "lib/turn"
-- Filling a claim from the front of the queue.
local claim_fill = {}

-- Ids of the first available messages up to a SequentialID, in delivery order. Ids of one priority stand together, so
-- each of the eight is walked up to the bound.
function claim_fill.ids(q, count, bound)
  if bound == "" then return redis.call("ZRANGE", q.a, 0, count - 1) end
  local ids = {}
  for band = 0, 7 do
    local from, to = string.format("[%02x", band), string.format("[%02x%s", band, bound)
    local some = redis.call("ZRANGEBYLEX", q.a, from, to, "LIMIT", 0, count - #ids)
    for n = 1, #some do ids[#ids + 1] = some[n] end
    if #ids == count then break end
  end
  return ids
end

-- Decide: what the next page takes, and what has expired on the way. Nothing if frame.missing names queues that it
-- takes.
function claim_fill.page(q, c, most_bytes, bound)
  local count = math.min(claim.page, c.wanted - c.count)
  local page = { take = {}, expired = {}, bytes = 0 }
  local entries, seen
  if count > 0 and queue.is(q, "x") and not q.parent then
    turn.load()
    entries = turn.take(q, count)
    seen = #entries
  else
    local ids = count > 0 and claim_fill.ids(q, count, bound) or {}
    entries, seen = position.read(q, ids), #ids
  end
  local dry = seen < count
  page.full = dry or c.count + seen >= c.wanted
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
  if #page.take > 0 then position.lock(q, page.take, "C", c.owner, string.format("%.0f", c.seq), claim.score(c)) end
  c.count, c.bytes = c.count + #page.take, c.bytes + page.bytes
  if page.full then c.sealed = "1" end
end
