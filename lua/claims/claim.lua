--- require "core/context"
--- require "core/queue"
--- require lazy "matching/index"
-- Claims: a data pipeline's locks, which never lapse (docs/decisions/0020). Field "claim:<owner>" of the queue's hash:
--
--   lineage committed seq number wanted count bytes sealed since_ms [draining]
--
-- lineage: which checkpoint of the owner. committed: the last sequence that is done. seq: the one that is claimed,
-- equal to committed if none. number: names its pages (claims/claim_pages), and makes the score that those of its messages
-- have in q.l that are not packed: so they stand there together, beyond every deadline. sealed: 0 still filling,
-- 1 complete, 2 released by an operator.
-- draining: the number of a committed claim whose messages are not all removed yet (claims/drain); it stands there
-- only while there is one.
-- Its messages are Locked with kind C; their owner and fence are the claim's owner and sequence.
-- page: messages that one call locks or receives with a look at each; run: without one, some 2 ms.
local claim = { floor = 4503599627370496, page = 256, run = 1000 }

function claim.open(q, owner)
  local text, pages = unpack(redis.call("HMGET", q.q, "claim:" .. owner, "pages"))
  q.pages = pages
  if not text then return end
  local lineage, committed, seq, number, wanted, count, bytes, sealed, since, draining =
    string.match(text, "^(%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d) (%d+) ?(%d*)$")
  return { owner = owner, lineage = lineage, committed = tonumber(committed), seq = tonumber(seq), number = number,
    wanted = tonumber(wanted), count = tonumber(count), bytes = tonumber(bytes), sealed = sealed, since = since,
    draining = draining ~= "" and draining or nil }
end

function claim.save(q, c)
  redis.call("HSET", q.q, "claim:" .. c.owner, table.concat({ c.lineage, string.format("%.0f", c.committed),
    string.format("%.0f", c.seq), c.number, string.format("%.0f", c.wanted), string.format("%.0f", c.count),
    string.format("%.0f", c.bytes), c.sealed, c.since, c.draining }, " "))
  context.mark_changed()
end

-- The number of the next claim on this queue; claim.save_number writes it down once the claim has taken something.
function claim.next_number(q)
  return string.format("%.0f", tonumber(redis.call("HGET", q.q, "claims") or 0) + 1)
end

function claim.save_number(q, number)
  redis.call("HSET", q.q, "claims", number)
end

-- The score in q.l of the messages of a claim with this number.
function claim.score(number)
  return string.format("%.0f", claim.floor + tonumber(number))
end

-- Who has, or had, a claim on this queue.
function claim.owners(q)
  local owners = {}
  for _, field in ipairs(redis.call("HKEYS", q.q)) do owners[#owners + 1] = string.match(field, "^claim:(.*)$") end
  return owners
end

-- Is the process that holds the claim still connected? It subscribes to a channel of this name while it lives.
function claim.alive(c)
  local channel = string.sub(KEYS[1], 1, -5) .. "claim:" .. c.owner .. ":" .. c.lineage
  local listeners = redis.pcall("PUBSUB", "NUMSUB", channel)
  return type(listeners) == "table" and tonumber(listeners[2] or 0) > 0
end

-- Why this checkpoint may not use sequence `seq` of the claim, or nothing.
function claim.refuses(c, lineage, seq)
  if c.lineage ~= lineage then return "foreign" end
  if c.sealed == "2" then return "released" end
  if seq <= c.committed then return "stale" end
  if seq < c.seq then return "fenced" end
end

-- Ids of the first available messages between two SequentialIDs ("" no limit), in delivery order. Ids of one priority
-- stand together, so each of the eight is walked from the one to the other.
function claim.ids(q, count, after, bound)
  if after == "" and bound == "" then return redis.call("ZRANGE", q.a, 0, count - 1) end
  local ids = {}
  for band = 0, 7 do
    local from = string.format(after == "" and "[%02x%s" or "(%02x%s", band, after)
    local to = bound == "" and string.format("(%02x", band + 1) or string.format("[%02x%s", band, bound)
    local some = redis.call("ZRANGEBYLEX", q.a, from, to, "LIMIT", 0, count - #ids)
    for n = 1, #some do ids[#ids + 1] = some[n] end
    if #ids == count then break end
  end
  return ids
end

-- How many messages of a queue with turns (features/group_lock) a claim would take: one of each group that could go on and whose
-- first message is not behind `bound`. Nothing for a queue without turns.
function claim.turns(q, bound)
  if q.parent or not queue.has(q, "x") then return end
  local count = redis.call("ZLEXCOUNT", q.i, "[h", "(i")
  if bound == "" or count == 0 then return count end
  index.load()
  -- Of more groups than one call may look at the rest counts.
  local heads = redis.call("ZRANGEBYLEX", q.i, "[h", "(i", "LIMIT", 0, claim.run)
  count = count - #heads
  for n = 1, #heads do
    local first = index.range(q, "g", string.sub(heads[n], 4), "", 1)[1]
    if first and string.sub(first, 3) <= bound then count = count + 1 end
  end
  return count
end

-- Those of these entries that are between two SequentialIDs.
function claim.between(entries, after, bound)
  local found = {}
  for n = 1, #entries do
    local sequential = string.sub(entries[n].lid, 3)
    if sequential > after and (bound == "" or sequential <= bound) then found[#found + 1] = entries[n] end
  end
  return found
end
