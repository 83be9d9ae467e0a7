--- require "core/context"
--- require "core/position"
--- require "core/queue"
-- Brings the index of message and correlation ids (matching/index) up to date, when a search asks for such an id: senders
-- add only messages in front of the last one that is in it (docs/decisions/identifiers.md). Used by matching/search and core/seek.
-- Field "index" of the queue's hash says up to which id, in delivery order, the index reaches (core/queue); or
--
--   all, ""  every message is in it (written by builds before schema 4)
--   part     every message that arrives is added; of older ones those up to field index_at are in it, if there is such a
--            field. The doctor writes this, too, where it cannot tell how far the index reaches.
--
-- One call adds at most `most` messages, or some `bytes` of records. No search uses the index before it is complete.
local index_build = { most = 1000, page = 250, bytes = 4194304 }

-- Adds the next messages. Is the index complete now?
function index_build.some(q)
  if q.behind then return false end  -- this call has done its part
  local old = q.indexed == queue.always
  -- A queue that never held a special message holds none with ids; in old queues not all of these were marked.
  if not old and not q.has_special then return true end
  -- Reading the last element is cheaper than counting those behind a place.
  local last = not old and redis.call("ZRANGE", q.a, "0", "0", "REV")[1]
  if not old and (not last or last <= q.indexed) then return true end
  local from = old and index_build.old(q) or q.indexed
  local at, left, bytes, whole = from, index_build.most, 0
  repeat
    local ids = redis.call("ZRANGEBYLEX", q.a, "(" .. at, "+", "LIMIT", "0", index_build.page)
    whole, at, left = #ids < index_build.page, ids[#ids] or at, left - #ids
    if not old then q.indexed = at end
    bytes = bytes + index_build.enter(q, ids)
  until whole or left <= 0 or bytes > index_build.bytes
  if old and whole then redis.call("HDEL", q.q, "index_at") end
  if old and not whole then
    redis.call("HSET", q.q, "index_at", at)
    context.mark_changed()
  elseif old or at ~= from then
    queue.set_indexed(q, at)
    context.mark_changed()  -- so that a repair that was planned before is refused
  end
  q.behind, q.altered = not whole, true
  return whole
end

-- Up to which id the index certainly reaches in a queue where every arriving message is added.
function index_build.old(q)
  local said = redis.call("HMGET", q.q, "index", "index_at")
  if said[1] == "part" then return said[2] or queue.never end
  return redis.call("ZRANGE", q.a, "-1", "-1")[1] or queue.never
end

-- Adds these messages; adding one twice changes nothing. Returns how many bytes of records it read.
function index_build.enter(q, ids)
  if #ids == 0 then return 0 end
  local recs, there, texts, bytes = redis.call("HMGET", q.m, unpack(ids)), { nil }, { nil }, 0
  for n = 1, #ids do
    local rec = recs[n]
    if rec then
      there[#there + 1], texts[#texts + 1] = ids[n], rec
      bytes = bytes + #rec
    end
  end
  position.name(q, there, texts)
  return bytes
end
