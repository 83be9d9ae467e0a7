--- require "lib/many"
--- require "lib/record"
-- What one call of a reader has locked, as one text (docs/decisions/0037).
--
--   q.q  "lock:<fence>"  "deadline bytes size slot ids": size of each message, 0 if they differ; 16 digits each id
--   q.q  "counts"        its marks (lib/queue) say how many of these there are
--
-- Such messages are Locked with kind L like any other, delivered once; they have no state and are not in q.l. Only
-- lib/straight and lib/straight_locks write these texts, and take away whole ones; who settles a part there unpacks that one.
-- Whoever opens the queue (queue.open) unpacks all of them first, so nobody else has to know of them. That takes time, 1.5
-- microseconds a message, so there are at most so many in a queue (straight.most); of others each message stands by itself.
local packed_locks = {}

function packed_locks.text(deadline, bytes, size, slot, ids)
  return string.format("%s %d %d %s ", deadline, bytes, size, slot) .. ids
end

-- The bytes of all that such a text has, if `ids` names just these, in their order.
function packed_locks.whole(text, ids)
  local bytes, at = string.match(text, "^%d+ (%d+) %d+ %S+ ()")
  return bytes and #text == at + #ids - 1 and string.find(text, ids, at, true) and bytes + 0
end

-- Locks each message by itself, none of which was ever locked before. `at`: the keys of its queue stand behind this one of
-- KEYS; `size` and `ids` as such a text has them.
function packed_locks.apart(at, fence, deadline, size, slot, ids)
  local leases, texts, records = { nil, nil }, { nil, nil }, KEYS[at + 4]
  local state = size ~= "0" and record.lock(size, slot, fence)
  if state and #ids == 16 then
    redis.call("ZADD", KEYS[at + 3], deadline, ids)
    redis.call("HSET", KEYS[at + 5], ids, state)
    return
  end
  for n = 1, #ids, 16 do
    local lid, last = string.sub(ids, n, n + 15), (n + 15) / 8
    leases[last - 1], leases[last], texts[last - 1] = deadline, lid, lid
    texts[last] = state or record.lock(redis.call("HSTRLEN", records, lid), slot, fence)
  end
  many.scores(KEYS[at + 3], leases)
  many.fields(KEYS[at + 5], texts)
end

-- The text of this fence, if there is one that is sound: each message gets its state and its element of q.l. A damaged one
-- stays: the doctor tells of it.
function packed_locks.one(at, fence)
  local key, field = KEYS[at + 1], "lock:" .. fence
  local deadline, size, slot, ids =
    string.match(redis.call("HGET", key, field) or "", "^(%d+) %d+ (%d+) (%S+) (%x+)$")
  if not ids then return false end
  packed_locks.apart(at, fence, deadline, size, slot, ids)
  redis.call("HDEL", key, field)
  return true
end

-- All of a queue.
function packed_locks.unpack(at)
  local fields = redis.call("HKEYS", KEYS[at + 1])
  for n = 1, #fields do
    local fence = string.find(fields[n], "lock:", 1, true) == 1 and string.match(fields[n], "^(%d+)$", 6)
    if fence then packed_locks.one(at, fence) end
  end
end
