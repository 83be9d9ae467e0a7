--- require "core/context"
--- require "core/position"
--- require "core/queue"
-- The index of message and correlation ids (matching/index) is brought up to date by whoever asks for one: senders put in only
-- what comes before others that are in it (docs/decisions/0039). Field "index" of the queue's hash says up to which id, in
-- delivery order, it reaches (core/queue); or, as builds before this one have written it:
--
--   all, ""  it has all, and all that comes enters it
--   part     the same of what comes; of what was there before it has what stands up to field index_at, if there is one.
--            The doctor writes this, too, where it cannot tell how far it reaches.
--
-- One call puts no more than `most` messages into it, or some `bytes` of records. Nobody looks into it before it is whole.
local index_build = { most = 1000, page = 250, bytes = 4194304 }

-- Goes on building. Is it whole now?
function index_build.some(q)
  if q.behind then return false end  -- this call has done its share
  local old = q.indexed == queue.always
  -- Where no special message ever came none has ids; of those in old queues not all left a mark.
  if not old and not q.has_special then return true end
  -- The end of a sorted set is at hand, a place in it has to be looked for.
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
    context.mark_changed()  -- what a doctor has seen of the queue is over
  end
  q.behind = not whole
  return whole
end

-- Up to which id it is sure to reach in a queue where all that comes enters it.
function index_build.old(q)
  local said = redis.call("HMGET", q.q, "index", "index_at")
  if said[1] == "part" then return said[2] or queue.never end
  return redis.call("ZRANGE", q.a, "-1", "-1")[1] or queue.never
end

-- Puts these in; where one is in it already that changes nothing. Returns the bytes that it read.
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
