--- require "core/context"
--- require "core/position"
--- require "core/queue"
--- used by matching/search
-- Brings the index of message and correlation ids (matching/index) up to date, when a search asks for such an id: senders add
-- only messages in front of the last one that is in it, so a queue that is never searched has none
-- (docs/decisions/storage.md).
--
-- q.indexed, stored as field "index" of the queue's hash, is the id up to which the index reaches in delivery order (core/queue).
-- The doctor writes "part" there where it cannot tell; q.indexed is queue.always then, so that every message that arrives is
-- added. Searches add all messages from the first one on to such an index, and field "index_at" of the hash keeps the id up to
-- which they got.
--
-- One call adds at most `most` messages, `page` at a time, or about `bytes` of records. No search uses the index before it is
-- complete. The doctor checks both fields (`_index` in mqredis/operations/doctor/checks/queues.py). Senders add what the index has
-- reached by the same functions: position.special and index.append (matching/index) compare with q.indexed.
-- Tests: tests/matching/test_index_on_demand.py.
--
-- queue.notes(q).behind: this call has added what one call adds, and there is more.
local index_build = { most = 1000, page = 250, bytes = 4194304 }

-- Adds the next messages. Returns whether the index is complete now; if not, a later call goes on.
function index_build.some(q)
  if queue.notes(q).behind then return false end
  local is_part = q.indexed == queue.always
  if index_build.is_complete(q, is_part) then return true end
  local from = is_part and (redis.call("HGET", q.key, "index_at") or queue.never) or q.indexed
  local reached, is_complete = index_build.add_pages(q, from, is_part)
  index_build.save(q, is_part, reached, is_complete)
  queue.notes(q).behind = not is_complete
  return is_complete
end

-- Is there nothing to add?
function index_build.is_complete(q, is_part)
  if is_part then return false end
  if not q.has_special then return true end -- a queue that never held a special message holds none with ids
  -- Reading the last element is cheaper than counting those behind a place.
  local last = redis.call("ZRANGE", q.available, "0", "0", "REV")[1]
  return not last or last <= q.indexed
end

-- Adds the available messages behind the id `from`, as many as one call may. Returns the last id that is in the index now, and
-- whether no messages are left.
function index_build.add_pages(q, from, is_part)
  local reached, messages, bytes = from, 0, 0
  repeat
    local ids = redis.call("ZRANGEBYLEX", q.available, "(" .. reached, "+", "LIMIT", "0", index_build.page)
    reached = ids[#ids] or reached
    if not is_part then q.indexed = reached end -- index.append leaves out what is behind it
    messages, bytes = messages + #ids, bytes + index_build.add(q, ids)
    if #ids < index_build.page then return reached, true end
  until messages >= index_build.most or bytes > index_build.bytes
  return reached, false
end

-- Adds these messages; adding one twice changes nothing. Returns how many bytes of records it read.
function index_build.add(q, ids)
  if #ids == 0 then return 0 end
  local recs, bytes = redis.call("HMGET", q.records, unpack(ids)), 0
  local stored_ids, stored_recs = { nil }, { nil } -- without ids that have no record, which the doctor reports
  for n = 1, #ids do
    local rec = recs[n]
    if rec then
      stored_ids[#stored_ids + 1], stored_recs[#stored_recs + 1] = ids[n], rec
      bytes = bytes + #rec
    end
  end
  position.add_to_index(q, stored_ids, stored_recs)
  return bytes
end

-- Notes that the index is complete up to this id; or, if a part was there and more is missing, how far its completion has got.
-- Either counts as a change, so that a repair that was planned before is refused.
function index_build.save(q, is_part, reached, is_complete)
  if is_part and not is_complete then
    redis.call("HSET", q.key, "index_at", reached)
  else
    if is_part then redis.call("HDEL", q.key, "index_at") end
    queue.set_indexed(q, reached)
  end
  context.mark_changed()
end
