--- require "core/context"
--- require "core/queue"
--- require lazy "features/group_lock"
--- used by admin/audit_claims, admin/sweep, claim, claim_backlog, claim_commit, claim_list, claim_match, claim_read, claim_release,
---   claim_wait, claims/claim_pages, claims/claimed_ids, claims/drain, claims/fill, claims/loosen, queue_close, queue_delete
-- Claims: what a data pipeline has locked, until it is committed or released; such locks never lapse
-- (docs/decisions/pipelines.md). This module alone reads and writes a claim's text, the
-- field "claim:<owner>" of the queue's hash q.key; mqredis/codec/claims.py reads it for Spark and the doctor. Each owner (a
-- pipeline) has one claim in a queue.
--
--   "<lineage> <committed> <seq> <number> <wanted> <count> <bytes> <sealed> <since ms>[ <draining>]"
--   example: 8b2f0c 6 7 3 5000 2000 640000 0 1764000000000
--
--   lineage    which checkpoint of the owner has made the claim; the owner's name comes from its consumerName option
--   committed  the last sequence number whose claim is committed
--   seq        the sequence number of the present claim; equal to committed if there is none
--   number     names the claim's pages (claims/claim_pages) and makes its score (claims.score)
--   wanted, count, bytes   how many messages it may take; how many it has, and of how many bytes
--   sealed     0 still filling, 1 complete, 2 released by an operator (claims.filling, claims.complete, claims.released)
--   draining   number of a committed claim whose messages are not all removed yet (claims/drain); left out if there is none
--
-- In all files `claim` is a table with these parts as fields, and with the field `owner`. committed, seq, wanted, count and bytes
-- are numbers, the others texts; draining is nil if there is none. Who changes a claim has to call claims.save.
--
-- Claimed messages are locked with kind C (core/message_state); the owner and the fence of their states are the claim's owner and
-- seq.
--
-- Change together with: mqredis/codec/claims.py (tests/contract/test_stored_texts.py); WHY in mqredis/commands/claims.py, which has
-- a text for each word that a claim*.lua may return with LOCK_LOST; ONE_CALL in mqredis/spark/threads.py, which is
-- page_without_records (tests/contract/test_arguments.py); tests/property/packed.py, which replaces the sizes of pages. What a
-- claim may take is said here (claims.range to claims.between) and carried out by claims/fill; claim_wait, claim_match and
-- claim_backlog count it. Tests: tests/client/test_claims.py, and at random test_claim_random_runs.py.
--
-- filling, complete, released  the values of `sealed`
-- page_with_records     how many messages one call locks or removes if it has to read their records
-- page_without_records  how many if it need not, in some 2 ms
local claims = { page_with_records = 256, page_without_records = 1000, filling = "0", complete = "1", released = "2" }

-- The stored text -------------------------------------------------------------------------------------------------------

-- Returns a claim as a table, from its text.
function claims.parse(owner, text)
  local lineage, committed, seq, number, wanted, count, bytes, sealed, since, draining =
    string.match(text, "^(%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d) (%d+) ?(%d*)$")
  return { owner = owner, lineage = lineage, committed = tonumber(committed), seq = tonumber(seq), number = number,
    wanted = tonumber(wanted), count = tonumber(count), bytes = tonumber(bytes), sealed = sealed, since = since,
    draining = draining ~= "" and draining or nil }
end

-- Returns the text of a claim.
function claims.format(claim)
  local text = string.format("%s %.0f %.0f %s %.0f %.0f %.0f %s %s", claim.lineage, claim.committed, claim.seq,
    claim.number, claim.wanted, claim.count, claim.bytes, claim.sealed, claim.since)
  return claim.draining and text .. " " .. claim.draining or text
end

-- Returns the claim of an owner that has none in this queue: as if the claim before `seq` were committed. claims.save writes it.
function claims.new(owner, lineage, seq)
  return { owner = owner, lineage = lineage, committed = seq - 1, seq = seq - 1, number = "0", wanted = 0, count = 0,
    bytes = 0, since = "0", draining = nil, sealed = claims.complete }
end

-- Returns the claim of an owner; nil if the owner never had one. Reads the page lists of the queue with it, which
-- claim_pages.lists returns then.
function claims.open(q, owner)
  local texts = redis.call("HMGET", q.key, "claim:" .. owner, "pages")
  queue.notes(q).pages = texts[2] or ""
  if texts[1] then return claims.parse(owner, texts[1]) end
end

-- Writes a claim.
function claims.save(q, claim)
  redis.call("HSET", q.key, "claim:" .. claim.owner, claims.format(claim))
  context.mark_changed()
end

-- Removes the claim of an owner.
function claims.forget(q, owner)
  redis.call("HDEL", q.key, "claim:" .. owner)
end

-- Returns the number of the next claim on this queue. claims.save_number writes it once the claim has taken something.
function claims.next_number(q)
  return string.format("%.0f", tonumber(redis.call("HGET", q.key, "claims") or 0) + 1)
end

-- Writes the number of the newest claim on this queue.
function claims.save_number(q, number)
  redis.call("HSET", q.key, "claims", number)
end

-- Returns the score in q.locked of the messages of a claim with this number. No lock with such a score lapses.
function claims.score(number)
  return string.format("%.0f", queue.claimed + tonumber(number))
end

-- Returns the claims of all owners on this queue.
function claims.all(q)
  local found = {}
  for _, field in ipairs(redis.call("HKEYS", q.key)) do
    local owner = string.match(field, "^claim:(.*)$")
    if owner then found[#found + 1] = claims.open(q, owner) end
  end
  return found
end

-- Is the process that holds the claim still connected? It subscribes to a channel of this name while it lives
-- (claim_channel in mqredis/keys.py). False if this user may not ask; after a takeover the checkpoint of that process is refused.
function claims.alive(claim)
  return (context.listeners(context.prefix() .. "claim:" .. claim.owner .. ":" .. claim.lineage) or 0) > 0
end

-- Returns why the checkpoint `lineage` may not use sequence `seq` of the claim, or nil if it may. The words of the reply: foreign,
-- the claim is of another checkpoint; released, by an operator; stale, committed already; fenced, a later one has begun.
function claims.refuses(claim, lineage, seq)
  if claim.lineage ~= lineage then return "foreign" end
  if claim.sealed == claims.released then return "released" end
  if seq <= claim.committed then return "stale" end
  if seq < claim.seq then return "fenced" end
end

-- What a claim may take -------------------------------------------------------------------------------------------------

-- Returns where the ids of one priority begin and end, as ZRANGEBYLEX takes it, that are behind SequentialID `after` and up to
-- `bound` ("" for no limit). An id is two digits, 0 to 7 (7 less the priority), and a SequentialID. `digits`: the number of the
-- first two.
function claims.range(digits, after, bound)
  return string.format(after == "" and "[%02x%s" or "(%02x%s", digits, after),
    bound == "" and string.format("(%02x", digits + 1) or string.format("[%02x%s", digits, bound)
end

-- Returns how many messages are available in these limits.
function claims.count(q, after, bound)
  if after == "" and bound == "" then return redis.call("ZCARD", q.available) end
  local count = 0
  for digits = 0, 7 do
    count = count + redis.call("ZLEXCOUNT", q.available, claims.range(digits, after, bound))
  end
  return count
end

-- Returns up to `count` ids of available messages in these limits, in delivery order.
function claims.ids(q, count, after, bound)
  local ids = {}
  for digits = 0, 7 do
    local from, upto = claims.range(digits, after, bound)
    local some = redis.call("ZRANGEBYLEX", q.available, from, upto, "LIMIT", 0, count - #ids)
    for n = 1, #some do ids[#ids + 1] = some[n] end
    if #ids == count then break end
  end
  return ids
end

-- Returns how many messages a claim would take of a queue with one active message for each group (features/group_lock): one of
-- each group that is free and whose first message is not behind `bound`. nil for any other queue.
function claims.turns(q, bound)
  if not q.locks_groups then return end
  -- Where there are more groups than one call may look at, the rest counts.
  return group_lock.count_ready(q, bound, claims.page_without_records)
end

-- Returns the entries that are behind SequentialID `after` and up to `bound` ("" for no limit).
function claims.between(entries, after, bound)
  local found = {}
  for n = 1, #entries do
    local sequential = string.sub(entries[n].id, 3)
    if sequential > after and (bound == "" or sequential <= bound) then found[#found + 1] = entries[n] end
  end
  return found
end
