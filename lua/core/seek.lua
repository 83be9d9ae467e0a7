--- require "core/context"
--- require "core/position"
--- require "core/record"
--- require lazy "matching/index"
--- require lazy "matching/index_build"
--- used by bulk, claims/fill, lookup, move, peek, receive
-- Seek Available Message Position (3.1.7.3.2): only ids cross from one step to the next, so a position that was removed
-- under a cursor still has a "next".
local seek = { most = 1048576 }

-- The first up to `count` available messages behind `after` ("" from the front), as columns: ids, records, states. Expired
-- ones are passed over; core/timers removes them.
function seek.available(q, after, count)
  local page = count
  for _ = 1, 8 do
    local ids
    if after == "" then
      ids = redis.call("ZRANGE", q.available, "0", page == 1 and "0" or page - 1)  -- formatting a number costs more
    else
      ids = redis.call("ZRANGEBYLEX", q.available, "(" .. after, "+", "LIMIT", 0, page)
    end
    if not ids[1] then return ids, {}, {} end
    local last, full = ids[#ids], #ids == page
    local recs, states = position.columns(q, ids)
    seek.pass_over(ids, recs, states, count)
    if ids[1] or not full then return ids, recs, states end
    after, page = last, 128
  end
  return {}, {}, {}
end

-- Takes messages that have no record or have expired out of these columns, and those beyond `count`.
function seek.pass_over(ids, recs, states, count)
  local byte, free, kept, size = string.byte, record.free, 0, #ids
  for n = 1, size do
    local rec = recs[n]
    if rec and kept < count and (free[byte(rec, 14)] or not record.is_expired(rec, context.now)) then
      kept = kept + 1
      if kept < n then ids[kept], recs[kept], states[kept] = ids[n], rec, states[n] end
    end
  end
  for n = size, kept + 1, -1 do ids[n], recs[n], states[n] = nil, nil, nil end
end

-- The first of them as an entry.
function seek.first(q, after)
  return position.entries(seek.available(q, after, 1))[1]
end

-- What would make a reply of more than a megabyte is taken off these columns.
function seek.limit(q, ids, recs, states)
  local size = 0
  if not ids[2] then return end
  for n = 1, #ids do
    size = size + (states[n] and states[n].size or position.record_size(q, ids[n], recs[n]))
    if size > seek.most and n > 1 then
      for k = #ids, n, -1 do ids[k], recs[k], states[k] = nil, nil, nil end
      break
    end
  end
end

-- As seek.limit, for entries; but entries that belong together stay. Returns their ids.
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
-- waiting reader was notified of. That message need not be in the index, which is built only when a search asks for it.
function seek.direct(q, text, after, count, hint)
  index.load()
  local key, id = index.direct(q, text)
  if not key then return end
  local entries = hint and count == 1 and after == "" and redis.call("ZSCORE", q.available, hint)
    and position.read(q, { hint })
  if not entries or not entries[1] or index.id_of(entries[1].rec, key) ~= id then
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
  return record.is_expired(e.rec, context.now)
end

-- The nearest entry that a peek may see, forward or backward from `from` (exclusive; "" from that end): available, or
-- locked but visible to peeks.
function seek.visible(q, from, backward)
  local e = backward and seek.back(q, from) or not backward and seek.first(q, from)
  local seen
  if backward then
    local top = from == "" and "(w" or "(v" .. from
    seen = redis.call("ZREVRANGEBYLEX", q.index, top, "[v", "LIMIT", 0, 1)[1]
  else
    local low = from == "" and "[v" or "(v" .. from
    seen = redis.call("ZRANGEBYLEX", q.index, low, "(w", "LIMIT", 0, 1)[1]
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
    local e = position.read(q, redis.call("ZREVRANGEBYLEX", q.available, top, "-", "LIMIT", 0, 1))[1]
    if not e or not seek.expired(e) then return e end
    from = e.lid
  end
end
