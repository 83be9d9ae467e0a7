--- require "lib/frame"
--- require "lib/position"
--- require "lib/record"
--- require lazy "lib/index"
-- Seek Available Message Position (3.1.7.3.2): only ids cross from one step to the next, so a position that was removed
-- under a cursor still has a "next".
local seek = {}

-- Up to `count` available entries behind `after` ("" from the front).
-- Expired ones are passed over; lib/due removes them
function seek.available(q, after, count)
  local found, page = { nil }, count
  for _ = 1, 8 do
    local ids
    if after == "" then
      ids = redis.call("ZRANGE", q.a, 0, page - 1)
    else
      ids = redis.call("ZRANGEBYLEX", q.a, "(" .. after, "+", "LIMIT", 0, page)
    end
    local entries, byte, kept = position.read(q, ids), string.byte, #found
    for n = 1, #entries do
      local e = entries[n]
      local flag = byte(e.rec, 14)
      if kept < count and (flag == 48 or flag == 104 or not seek.expired(e)) then
        kept = kept + 1
        found[kept] = e
      end
    end
    if #found > 0 or #ids < page then return found end
    after, page = ids[#ids], 128
  end
  return found
end

-- The entries that the index alone names for a filter; nothing if that takes more (lib/search).
function seek.direct(q, text, after, count)
  index.load()
  local ids = index.direct(q, text, after, count)
  local entries = ids and position.read(q, ids)
  for n = 1, #(entries or "") do
    if seek.expired(entries[n]) then return end
  end
  return entries
end

function seek.expired(e)
  local at = record.flag(e.rec, 1) and record.expires(e.rec)
  return at and at <= frame.now
end

-- The nearest entry that a peek may see, forward or backward from `from` (exclusive; "" from that end): available, or
-- locked but visible to peeks.
function seek.visible(q, from, backward)
  local e = backward and seek.back(q, from) or not backward and seek.available(q, from, 1)[1]
  local seen
  if backward then
    local top = from == "" and "(w" or "(v" .. from
    seen = redis.call("ZREVRANGEBYLEX", q.i, top, "[v", "LIMIT", 0, 1)[1]
  else
    local low = from == "" and "[v" or "(v" .. from
    seen = redis.call("ZRANGEBYLEX", q.i, low, "(w", "LIMIT", 0, 1)[1]
  end
  local lid = seen and string.sub(seen, 2)
  if lid and (not e or (backward and lid > e.lid) or (not backward and lid < e.lid)) then
    return position.read(q, { lid })[1]
  end
  return e
end

-- The nearest available entry before `from` ("" from the end).
function seek.back(q, from)
  for _ = 1, 256 do
    local top = from == "" and "+" or "(" .. from
    local e = position.read(q, redis.call("ZREVRANGEBYLEX", q.a, top, "-", "LIMIT", 0, 1))[1]
    if not e or not seek.expired(e) then return e end
    from = e.lid
  end
end
