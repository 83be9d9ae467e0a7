--- require "lib/frame"
--- require "lib/queue"
--- require "lib/quota"
--- require "lib/record"
--- require "lib/claim"
-- Claims of plain messages, which are nearly all: no table for each, and what is the same for many is written once.
-- What this leaves in the store is what lib/position would leave; where it cannot, lib/claim_fill and lib/position do.
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

-- The sizes of these messages; nothing if one is special or has a large body. Their records are not read where no sender
-- ever had one that is special, nor did the broker put one there (its own have identifiers), nor has one a large body.
function claim_plain.sizes(q, ids)
  local sizes = {}
  if not q.hooked and redis.call("ZCARD", q.i) == 0 and redis.call("HLEN", q.m) == q.messages + 0 then
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

-- Takes a page from the front of the queue. False if anything about it is special, and then nothing was changed.
function claim_plain.take(q, c, most_bytes, after, bound)
  if queue.is(q, "x") or c.count >= c.wanted then return false end
  -- Where special messages come by, a try costs less.
  local run = q.hooked and claim.page or claim.run
  local count = math.min(run, c.wanted - c.count)
  local ids, first = claim_plain.ids(q, count, after, bound)
  if #ids == 0 then return false end
  local sizes = claim_plain.sizes(q, ids)
  if not sizes then return false end
  -- Each locked message has a state. If nothing else has one, none of these has, and none is looked for.
  local olds = redis.call("HLEN", q.s) ~= redis.call("ZCARD", q.l) and redis.call("HMGET", q.s, unpack(ids))
  local bytes, states, scores, score = 0, {}, {}, claim.score(c.number)
  local tail = " CN " .. c.owner .. " " .. string.format("%.0f", c.seq)
  local texts, full = {}, #ids < count or c.count + #ids == c.wanted
  local taken = #ids
  for n = 1, #ids do
    local size = sizes[n]
    if most_bytes and c.count + n > 1 and c.bytes + bytes + size > most_bytes then
      taken, full = n - 1, true
      break
    end
    bytes = bytes + size
    local text = texts[size] or "1 0 0 0 " .. size .. tail
    texts[size] = text
    if olds and olds[n] then
      local st = record.state(olds[n])
      st.deliveries = st.deliveries + 1
      text = record.counts(st) .. " " .. size .. tail
    end
    states[n * 2 - 1], states[n * 2] = ids[n], text
    scores[n * 2 - 1], scores[n * 2] = score, ids[n]
  end
  if taken == 0 then
    c.sealed = "1"
    return true
  end
  if first then
    redis.call("ZREMRANGEBYRANK", q.a, 0, taken - 1)
  else
    redis.call("ZREM", q.a, unpack(ids, 1, taken))
  end
  redis.call("ZADD", q.l, unpack(scores))
  redis.call("HSET", q.s, unpack(states))
  c.count, c.bytes = c.count + taken, c.bytes + bytes
  if full then c.sealed = "1" end
  frame.touch()
  return true
end

-- Receives a page of the messages with this score, if they need no look at their records. Returns how many; nothing if
-- some need one.
function claim_plain.finish(q, score)
  if queue.is(q, "j") then return end
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
  quota.add(q, -#ids, -bytes)
  frame.touch()
  return #ids
end
