--- require "core/context"
--- require "core/queue"
--- require "claims/claim"
--- require "claims/claim_pages"
--- require "core/store"
--- require "core/message_state"
-- Claims of plain messages, which are nearly all: no table for each, and what is the same for many is written once. What
-- cannot be done so claims/claim_fill and core/position do.
local claim_plain = {}

-- As claim.ids; and whether these are the very first ones.
function claim_plain.ids(q, count, after, bound)
  local ids = redis.call("ZRANGE", q.a, 0, count - 1)
  if #ids == 0 or (after == "" and bound == "") then return ids, true end
  local first, last = ids[1], ids[#ids]
  if string.sub(first, 1, 2) == string.sub(last, 1, 2) and string.sub(first, 3) > after
    and (bound == "" or string.sub(last, 3) <= bound) then
    return ids, true
  end
  return claim.ids(q, count, after, bound), false
end

-- The sizes of these messages; nothing if one is special or has a large body. Their records are not read where none that
-- is special ever came, nor has one a large body. (In queues that builds before schema 3 have filled the broker's own
-- messages left no mark; those have an index, and these stand in it as long as they are available.)
function claim_plain.sizes(q, ids)
  local sizes = {}
  local plain = not q.has_special and (q.indexed == queue.never or redis.call("ZCARD", q.i) == 0)
  if plain and redis.call("HLEN", q.m) == q.messages + 0 then
    for n = 1, #ids do
      local size = redis.call("HSTRLEN", q.m, ids[n])
      if size == 0 then return end
      sizes[n] = size
    end
    return sizes
  end
  local recs = redis.call("HMGET", q.m, unpack(ids))
  for n = 1, #ids do
    local rec = recs[n]
    -- Flags 1 (special) and 8 (large body) take more than this; 2 and 4 do not.
    if not rec or (string.byte(rec, 14) ~= 48 and string.find(rec, "^[^0246]", 14)) then return end
    sizes[n] = #rec
  end
  return sizes
end

-- The states of those of these messages that were delivered before; nothing if none was. Each locked message that is not
-- packed has a state: if nothing else has one, none of these has, and none is looked for.
function claim_plain.olds(q, ids)
  local _, fields = claim_pages.packed(q)
  if redis.call("HLEN", q.s) - fields == redis.call("ZCARD", q.l) then return end
  local olds = redis.call("HMGET", q.s, unpack(ids))
  for n = 1, #ids do
    if olds[n] then return olds end
  end
end

-- How many of these sizes still fit into the claim, and the bytes of those.
function claim_plain.fit(c, sizes, most_bytes)
  local bytes, room = 0, most_bytes and most_bytes - c.bytes
  for n = 1, #sizes do
    local more = bytes + sizes[n]
    if room and more > room and c.count + n > 1 then return n - 1, bytes end
    bytes = more
  end
  return #sizes, bytes
end

-- Takes a page from the front of the queue. False if anything about it is special, and then nothing was changed.
function claim_plain.take(q, c, most_bytes, after, bound)
  if queue.has(q, "x") or c.count >= c.wanted or not claim_pages.fits(q, c) then return false end
  -- Where special messages come by, a try costs less.
  local run = q.has_special and claim.page or claim.run
  local count = math.min(run, c.wanted - c.count)
  local ids, first = claim_plain.ids(q, count, after, bound)
  if #ids == 0 then return false end
  local sizes = claim_plain.sizes(q, ids)
  if not sizes then return false end
  local olds = claim_plain.olds(q, ids)
  local taken, bytes = claim_plain.fit(c, sizes, most_bytes)
  if taken < #ids or #ids < count or c.count + #ids == c.wanted then c.sealed = "1" end
  if taken == 0 then return true end
  if first then
    redis.call("ZREMRANGEBYRANK", q.a, 0, taken - 1)
  else
    redis.call("ZREM", q.a, unpack(ids, 1, taken))
  end
  if olds then claim_plain.lock(q, c, ids, taken, sizes, olds) end
  claim_pages.add(q, c, ids, taken, bytes, not olds)
  c.count, c.bytes = c.count + taken, c.bytes + bytes
  return true
end

-- As core/position would: there is a state for each, since some had one.
function claim_plain.lock(q, c, ids, taken, sizes, olds)
  local states, scores, score = {}, {}, claim.score(c.number)
  local tail = " CN " .. c.owner .. " " .. string.format("%.0f", c.seq)
  for n = 1, taken do
    local counts = "1 0 0 0"
    if olds[n] then
      local st = message_state.parse(olds[n])
      st.deliveries = st.deliveries + 1
      counts = message_state.counts(st)
    end
    states[n * 2 - 1], states[n * 2] = ids[n], counts .. " " .. sizes[n] .. tail
    scores[n * 2 - 1], scores[n * 2] = score, ids[n]
  end
  redis.call("ZADD", q.l, unpack(scores))
  redis.call("HSET", q.s, unpack(states))
end

-- Receives a page of the messages with this score, if they need no look at their records. Returns how many; nothing if
-- some need one.
function claim_plain.finish(q, score)
  if queue.has(q, "j") then return end
  local ids = redis.call("ZRANGEBYSCORE", q.l, score, score, "LIMIT", 0, claim.run)
  if #ids == 0 then return end
  local states, sizes, bytes = redis.call("HMGET", q.s, unpack(ids)), {}, 0
  for n = 1, #ids do
    local state = states[n]
    local size = state and (sizes[state] or string.match(state, "^%d+ %d+ %d+ %d+ (%d+) CN "))
    if not size then return end
    sizes[state] = size
    bytes = bytes + size
  end
  local first = redis.call("ZRANK", q.l, ids[1])
  redis.call("ZREMRANGEBYRANK", q.l, first, first + #ids - 1)
  redis.call("HDEL", q.s, unpack(ids))
  redis.call("HDEL", q.m, unpack(ids))
  store.count(q, -#ids, -bytes)
  context.mark_changed()
  return #ids
end
