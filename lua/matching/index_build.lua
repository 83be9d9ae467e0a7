--- require "core/context"
--- require "core/position"
--- require "core/queue"
--- used by core/seek, matching/search
-- Brings the index of message and correlation ids (matching/index) up to date, when a search asks for such an id: senders add
-- only messages in front of the last one that is in it, so a queue that is never searched has none
-- (docs/decisions/storage.md).
--
-- Field "index" of the queue's hash says up to which id, in delivery order, the index reaches (core/queue). The doctor
-- writes "part" where it cannot tell: then every message that arrives is added, and searches add the others from the first
-- one on; field "index_at" keeps the id up to which they got.
--
-- One call adds at most `most` messages, `page` at a time, or about `bytes` of records. No search uses the index before it is
-- complete. queue.notes(q).behind: this call has added what one call adds, and there is more.
local index_build = { most = 1000, page = 250, bytes = 4194304 }

-- Adds the next messages. Returns whether the index is complete now.
function index_build.some(q)
  if queue.notes(q).behind then return false end  -- this call has done its part
  local part = q.indexed == queue.always
  -- A queue that never held a special message holds none with ids.
  if not part and not q.has_special then return true end
  -- Reading the last element is cheaper than counting those behind a place.
  local last = not part and redis.call("ZRANGE", q.available, "0", "0", "REV")[1]
  if not part and (not last or last <= q.indexed) then return true end
  local from = part and (redis.call("HGET", q.key, "index_at") or queue.never) or q.indexed
  local at, left, bytes, whole = from, index_build.most, 0
  repeat
    local ids = redis.call("ZRANGEBYLEX", q.available, "(" .. at, "+", "LIMIT", "0", index_build.page)
    whole, at, left = #ids < index_build.page, ids[#ids] or at, left - #ids
    if not part then q.indexed = at end
    bytes = bytes + index_build.enter(q, ids)
  until whole or left <= 0 or bytes > index_build.bytes
  if part and whole then redis.call("HDEL", q.key, "index_at") end
  if part and not whole then
    redis.call("HSET", q.key, "index_at", at)
    context.mark_changed()
  elseif part or at ~= from then
    queue.set_indexed(q, at)
    context.mark_changed()  -- so that a repair that was planned before is refused
  end
  queue.notes(q).behind = not whole
  return whole
end

-- Adds these messages; adding one twice changes nothing. Returns how many bytes of records it read.
function index_build.enter(q, ids)
  if #ids == 0 then return 0 end
  local recs, there, texts, bytes = redis.call("HMGET", q.records, unpack(ids)), { nil }, { nil }, 0
  for n = 1, #ids do
    local rec = recs[n]
    if rec then
      there[#there + 1], texts[#texts + 1] = ids[n], rec
      bytes = bytes + #rec
    end
  end
  position.add_to_index(q, there, texts)
  return bytes
end
