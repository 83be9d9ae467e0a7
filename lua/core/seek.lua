--- require "core/context"
--- require lazy "core/message_state"
--- require "core/position"
--- require lazy "core/record"
--- used by bulk, claims/fill, lookup, move, peek, receive
-- Finds the next messages of a queue (MS-MQDMPR 3.1.7.3.2 Seek Available Message Position). A place in the queue is an id, and
-- the message with that id need not exist any more: so a cursor whose message was removed still has a next one.
-- Messages are returned as columns where many may be found, else as entries (core/position). With a filter the scripts ask
-- matching/search instead; in queues where groups take turns, receive.lua asks features/group_lock instead of seek.available.
--
-- Change together with: who decides beside a search whether a reader gets a message: waiting/match_waiters for readers that wait,
-- claims/fill for claims. Tests: tests/conformance/test_seek.py and test_cursor.py.
--
-- most       bytes of a reply, about
-- page       how many ids are read at a time after a page whose messages have all expired; pages: how many pages one call reads
-- back_most  how many messages are looked at from the end of the queue
-- cursors    the letter that begins the text of a cursor, before its id (receive.lua, peek.lua): the message behind the id was not
--            read yet; that with the id was read; a peek goes on behind the id. mqredis/operations/cursor.py writes the text,
--            commands/read.py has the same letters (tests/contract/test_constants.py)
local seek = { most = 1048576, page = 128, pages = 8, back_most = 256,
  cursors = { unread = "U", read = "R", after = "A" } }

-- Returns the entry with this id, if it is available and has not expired; else nil.
function seek.current(q, id)
  local entry = redis.call("ZSCORE", q.available, id) and position.read(q, { id })[1]
  return entry and not seek.expired(entry) and entry or nil
end

-- Returns the first available messages behind `after` ("" from the front), `count` at most, as columns: ids, records, states.
-- Expired ones are passed over; core/timers removes them. If more of them are in front than the pages hold, nothing is found.
function seek.available(q, after, count)
  local page = count
  for _ = 1, seek.pages do
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
    after, page = last, seek.page
  end
  return {}, {}, {}
end

-- Removes from these columns the messages without a record, those that have expired, and those beyond `count`.
function seek.pass_over(ids, recs, states, count)
  local byte, free, flag_at, kept, size = string.byte, record.free, record.flag_at, 0, #ids
  for n = 1, size do
    local rec = recs[n]
    if rec and kept < count and (free[byte(rec, flag_at)] or not record.is_expired(rec, context.now)) then
      kept = kept + 1
      if kept < n then ids[kept], recs[kept], states[kept] = ids[n], rec, states[n] end
    end
  end
  for n = size, kept + 1, -1 do ids[n], recs[n], states[n] = nil, nil, nil end
end

-- Returns the first available message behind `after` as an entry; nil if there is none.
function seek.first(q, after)
  return position.entries(seek.available(q, after, 1))[1]
end

-- Removes from these columns the messages with which a reply would have more than seek.most bytes; the first one stays, so columns
-- of one message need not be limited. Messages that belong together (entries.whole, search.look) must not be limited.
function seek.limit(q, ids, recs, states)
  local size, byte, free, flag_at = 0, string.byte, record.free, record.flag_at
  for n = 1, #ids do
    local rec = recs[n]
    size = size + (free[byte(rec, flag_at)] and #rec or position.record_size(q, ids[n], rec))
    if size > seek.most and n > 1 then
      for k = #ids, n, -1 do ids[k], recs[k], states[k] = nil, nil, nil end
      break
    end
  end
end

-- Has this entry expired?
function seek.expired(entry)
  return record.is_expired(entry.rec, context.now)
end

-- Returns the nearest entry that a peek may see, before or behind `from` ("" from that end): an available message, or a locked
-- one that is visible to peeks. nil if there is none.
function seek.visible(q, from, backward)
  local entry
  if backward then entry = seek.back(q, from) else entry = seek.first(q, from) end
  local id = seek.locked(q, from, backward)
  if not id or entry and (id > entry.id) ~= backward then return entry end
  return position.read(q, { id })[1]
end

-- Returns the id of the nearest locked message that peeks see, before or behind `from` ("" from that end); nil if there is none.
function seek.locked(q, from, backward)
  local first = message_state.visible_member("") -- the members begin with it, and no other ones
  local last, bound = first .. "\255", from ~= "" and "(" .. message_state.visible_member(from)
  local found
  if backward then
    found = redis.call("ZREVRANGEBYLEX", q.index, bound or "[" .. last, "[" .. first, "LIMIT", 0, 1)
  else
    found = redis.call("ZRANGEBYLEX", q.index, bound or "[" .. first, "[" .. last, "LIMIT", 0, 1)
  end
  return found[1] and string.sub(found[1], #first + 1)
end

-- Returns the nearest available entry before `from` ("" from the end); nil if there is none.
function seek.back(q, from)
  for _ = 1, seek.back_most do
    local top = from == "" and "+" or "(" .. from
    local entry = position.read(q, redis.call("ZREVRANGEBYLEX", q.available, top, "-", "LIMIT", 0, 1))[1]
    if not entry or not seek.expired(entry) then return entry end
    from = entry.id
  end
end
