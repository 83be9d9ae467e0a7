--- require "core/context"
--- require "core/position"
--- require "core/record"
--- require lazy "matching/index"
--- require lazy "matching/index_build"
-- Seek Available Message Position (3.1.7.3.2): only ids cross from one step to the next, so a position that was removed
-- under a cursor still has a "next".
local seek = { most = 1048576 }

-- Up to `count` available entries behind `after` ("" from the front); with `quick` their ids and records instead, if
-- they are plain. Expired ones are passed over; core/due removes them. `read`: the first page, if it was read before.
function seek.available(q, after, count, quick, read)
  local found, page = { nil }, count
  for _ = 1, 8 do
    local ids, recs, states
    if read then
      ids, recs, states = unpack(read)
      read = nil
    else
      if after == "" then
        ids = redis.call("ZRANGE", q.a, "0", page == 1 and "0" or page - 1)  -- a number is formatted: it costs more
      else
        ids = redis.call("ZRANGEBYLEX", q.a, "(" .. after, "+", "LIMIT", 0, page)
      end
      recs, states = position.texts(q, ids)
    end
    if quick and #ids > 0 and seek.plain(ids, recs, states) then return {}, ids, recs end
    local entries, byte, kept, free = position.entries(ids, recs, states), string.byte, #found, record.free
    for n = 1, #entries do
      local e = entries[n]
      if kept < count and (free[byte(e.rec, 14)] or not seek.expired(e)) then
        kept = kept + 1
        found[kept] = e
      end
    end
    if #found > 0 or #ids < page then return found end
    after, page = ids[#ids], 128
  end
  return found
end

-- Most messages: at most a correlation id sets them apart, and nobody had them before. Are all of them such? What would
-- make a reply of more than a megabyte is taken off the lists.
function seek.plain(ids, recs, states)
  local size, byte, free = 0, string.byte, record.free
  for n = 1, #ids do
    local rec = recs[n]
    if not rec or states[n] or not free[byte(rec, 14)] then return false end
    size = size + #rec
    if size > seek.most and n > 1 then
      for k = #ids, n, -1 do ids[k], recs[k] = nil, nil end
      break
    end
  end
  return true
end

-- The same limit for entries: those that go into one reply stay. Returns their ids.
function seek.fit(q, entries)
  local size, ids = 0, { nil }
  for n = 1, #entries do
    local e = entries[n]
    if #entries > 1 then size = size + (e.st and e.st.size or position.size(q, e)) end
    if n > 1 and size > seek.most and not entries.whole then
      for k = #entries, n, -1 do entries[k] = nil end
      break
    end
    ids[n] = e.lid
  end
  return ids
end

-- The entries that the index alone names for a filter; nothing if that takes more (matching/search). `hint`: the id that a
-- waiting reader was rung for. That it need not be in the index for: nobody else may ever ask.
function seek.direct(q, text, after, count, hint)
  index.load()
  local key, id = index.direct(q, text)
  if not key then return end
  local entries = hint and count == 1 and after == "" and redis.call("ZSCORE", q.a, hint) and position.read(q, { hint })
  if not entries or not entries[1] or index.fields(entries[1].rec)[key] ~= id then
    index_build.load()
    if key ~= "g" and not index_build.some(q) then return end
    entries = position.read(q, index.range(q, key, id, after, count))
  end
  for n = 1, #entries do
    if seek.expired(entries[n]) then return end
  end
  return entries
end

function seek.expired(e)
  local at = record.flag(e.rec, 1) and record.expires(e.rec)
  return at and at <= context.now
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
