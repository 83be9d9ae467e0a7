--- require "core/chunked"
--- require "core/message_state"
-- What one call of a reader has locked, in short (docs/decisions/0037). The line of its queue (core/queue) ends with all of it:
--
--   one message   " fence,size,deadline,slot,id"
--   several       " fence", and beside the line, in meta:
--                 "lock:<fence>"  "deadline bytes size slot ids": size of each message, 0 if they differ; 16 digits each id
--
-- Such messages are Locked with kind L like any other, delivered once; they have no state and are not in q.l. Only
-- core/straight and core/straight_locks write this, and take away what one call has locked; who settles a part there unpacks that.
-- A text beside a line that does not name it is nobody's.
-- Whoever opens the queue (queue.open) unpacks all of them first, so nobody else has to know of them. That takes time, 1.5
-- microseconds a message, so there are at most so many texts beside a line (straight.most); of others each message stands by
-- itself.
local packed_locks = {}

function packed_locks.text(deadline, bytes, size, slot, ids)
  return string.format("%s %d %d %s ", deadline, bytes, size, slot) .. ids
end

-- The bytes of all that such a text has, if `ids` names just these, in their order.
function packed_locks.whole(text, ids)
  local bytes, at = string.match(text, "^%d+ (%d+) %d+ %S+ ()")
  return bytes and #text == at + #ids - 1 and string.find(text, ids, at, true) and bytes + 0
end

-- These locks of a line without that text; nothing if it does not name it.
function packed_locks.without(locks, fence)
  local padded = locks .. " "
  local from, to = string.find(padded, " " .. fence .. " ", 1, true)
  if from then return string.sub(padded, 1, from - 1) .. string.sub(padded, to, -2) end
end

-- Locks each message by itself, none of which was ever locked before. `at`: the keys of its queue stand behind this one of
-- KEYS; `size` and `ids` as such a text has them.
function packed_locks.apart(at, fence, deadline, size, slot, ids)
  local leases, texts, records = { nil, nil }, { nil, nil }, KEYS[at + 4]
  local state = size ~= "0" and message_state.first(size, "LN", slot, fence)
  for n = 1, #ids, 16 do
    local lid, last = string.sub(ids, n, n + 15), (n + 15) / 8
    leases[last - 1], leases[last], texts[last - 1] = deadline, lid, lid
    texts[last] = state or message_state.first(redis.call("HSTRLEN", records, lid), "LN", slot, fence)
  end
  chunked.scores(KEYS[at + 3], leases)
  chunked.fields(KEYS[at + 5], texts)
end

-- The text of this fence, if there is one that is sound: each message gets its state and its element of q.l. A damaged one
-- stays: the doctor tells of it. `hash`: where it stands, if not in meta.
function packed_locks.one(at, fence, hash)
  local key, field = hash or KEYS[1], "lock:" .. fence
  local deadline, size, slot, ids =
    string.match(redis.call("HGET", key, field) or "", "^(%d+) %d+ (%d+) (%S+) (%x+)$")
  if not ids then return false end
  packed_locks.apart(at, fence, deadline, size, slot, ids)
  redis.call("HDEL", key, field)
  return true
end

-- All that a line ends with.
function packed_locks.unpack(at, locks)
  local leases, states = { nil, nil }, { nil, nil }
  for entry in string.gmatch(locks, "[^ ]+") do
    local fence, size, deadline, slot, lid = string.match(entry, "^(%d+),(%d+),(%d+),([^,]+),(%x+)$")
    if fence then
      local last = #leases
      leases[last + 1], leases[last + 2], states[last + 1], states[last + 2] =
        deadline, lid, lid, message_state.first(size, "LN", slot, fence)
    else
      packed_locks.one(at, entry)
    end
  end
  if leases[1] then
    redis.call("ZADD", KEYS[at + 3], unpack(leases))
    redis.call("HSET", KEYS[at + 5], unpack(states))
  end
end

-- Builds before schema 5 had a text for each call in the queue's own hash.
function packed_locks.before(at)
  local fields = redis.call("HKEYS", KEYS[at + 1])
  for n = 1, #fields do
    local fence = string.find(fields[n], "lock:", 1, true) == 1 and string.match(fields[n], "^(%d+)$", 6)
    if fence then packed_locks.one(at, fence, KEYS[at + 1]) end
  end
end
