--- require "lib/many"
--- require "lib/record"
-- Messages that one call of a reader has locked, as one text (docs/decisions/0037).
--
--   q.q  "lock:<fence>"  "deadline bytes size slot ids": size of each message, 0 if they differ; 16 digits each id
--   q.q  "counts"        ends with 2 or 3 instead of 0 or 1 where there may be such fields
--
-- Such messages are Locked with kind L like any other, delivered once; they have no state and are not in q.l. Only
-- lib/straight_locks writes these fields, and takes away whole ones; the other short ways unpack what they settle a part
-- of. Whoever opens the queue (queue.open) unpacks all of them first, so nobody else has to know of them.
local packed_locks = {}

-- All of a queue, or the one of this fence: each message gets its state and its element of q.l, as if it had been locked by
-- itself. A damaged text stays: the doctor tells of it.
function packed_locks.unpack(key, locks, records, states, only)
  local fields = only and { "lock:" .. only } or redis.call("HKEYS", key)
  for n = 1, #fields do
    local fence = string.match(fields[n], "^lock:(%d+)$")
    local text = fence and redis.call("HGET", key, fields[n]) or ""
    local deadline, size, slot, ids = string.match(text, "^(%d+) %d+ (%d+) (%S+) (%x+)$")
    if ids then
      local leases, texts = { nil, nil }, { nil, nil }
      local state = size ~= "0" and record.lock(size, slot, fence)
      for at = 1, #ids, 16 do
        local lid, last = string.sub(ids, at, at + 15), (at + 15) / 8
        leases[last - 1], leases[last], texts[last - 1] = deadline, lid, lid
        texts[last] = state or record.lock(redis.call("HSTRLEN", records, lid), slot, fence)
      end
      many.scores(locks, leases)
      many.fields(states, texts)
      redis.call("HDEL", key, fields[n])
    end
  end
end
