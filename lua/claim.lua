-- Claim the next messages of a queue for a data pipeline, a page at a time, under an owner and a sequence number.
-- Repeated, it answers the same claim: once sealed, what it holds never changes.
-- MS-MQDMPR 3.1.7.1.11 Dequeue Message Begin
--
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] generation  of the queue
-- ARGV[4] owner  encoded
-- ARGV[5] lineage  which checkpoint of the owner
-- ARGV[6] claim_sequence  1, 2, 3...: everything before it must be committed
-- ARGV[7] wanted  messages at most
-- ARGV[8] most_bytes  "" no limit; the first message is always taken
-- ARGV[9] bound  14 hex digits: the last SequentialID to take, "" none
-- ARGV[10] first  "1": the first claim of this checkpoint, which may take over an owner whose process is gone
-- ARGV[11] after  14 hex digits: take only what has a later SequentialID, "" all
-- ARGV[12] filter  take only what matches, "" all (matching/filter)
-- ARGV[13] place  where the search of the call before has stopped, "" at first
-- RETURNS OK messages, bytes: the claim is sealed
-- RETURNS CONTINUE messages, bytes so far, place: call again
-- RETURNS LOCK_LOST why: foreign | running | released | stale | fenced | open | gap
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS GET_INHIBITED
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/due"
--- require "core/position"
--- require "claims/claim"
--- require "claims/claim_pages"
--- require "claims/claim_plain"
--- require lazy "claims/claim_fill"
--- require "waiting/waiters"
--- require "core/store"
local reply = context.open()
if reply then return reply end
local q = queue.open(1, 2)
if not q or q.generation ~= ARGV[3] then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.open_parent(q, 2)
due.serve(q, true)

local function finish(answer)
  store.save(q)
  answer = context.close(answer)
  waiters.ring(q)
  return answer
end
if context.missing then return finish(context.missing) end

-- decide -----------------------------------------------------------------------------------------
local seq = tonumber(ARGV[6])
local c, taken = claim.open(q, ARGV[4]), false
if not c then
  if seq ~= 1 and ARGV[10] ~= "1" then return finish({ status.LOCK_LOST, "", 0, "gap" }) end
  c = { owner = ARGV[4], lineage = ARGV[5], committed = seq - 1, seq = seq - 1, number = "0", wanted = 0, count = 0,
    bytes = 0, sealed = "1", since = "0" }
elseif c.lineage ~= ARGV[5] and ARGV[10] == "1" and seq == c.committed + 1 then
  if claim.alive(c) then return finish({ status.LOCK_LOST, "", 0, "running" }) end
  if c.sealed == "2" and claim_pages.holds(q, c) then return finish({ status.LOCK_LOST, "", 0, "released" }) end
  c.lineage, taken = ARGV[5], true
  if c.sealed == "2" then c.sealed = "1" end
end
local why = claim.refuses(c, ARGV[5], seq)
if not why and seq > c.seq then
  why = c.seq > c.committed and "open" or seq ~= c.committed + 1 and "gap" or nil
end
if why then return finish({ status.LOCK_LOST, "", 0, why }) end
if seq > c.seq and queue.has(q, "g") then return finish({ status.GET_INHIBITED }) end

if seq == c.seq and c.sealed ~= "0" then
  if taken then claim.save(q, c) end
  return finish({ status.OK, "", 0, c.count, c.bytes })
end
if seq > c.seq then
  c.seq, c.wanted, c.count, c.bytes, c.sealed, c.number = seq, tonumber(ARGV[7]), 0, 0, "0", nil
  c.since = context.now_text
end
local fresh = not c.number
if fresh then c.number = string.format("%.0f", tonumber(redis.call("HGET", q.q, "claims") or 0) + 1) end
local most_bytes, place = tonumber(ARGV[8]), ""
if ARGV[12] ~= "" or not claim_plain.take(q, c, most_bytes, ARGV[11], ARGV[9]) then
  claim_fill.load()
  local page = claim_fill.page(q, c, most_bytes, ARGV[11], ARGV[9], ARGV[12], ARGV[13])
  if not page then return finish(context.missing) end
  claim_fill.take(q, c, page)
  place = page.place or ""
end

-- apply ------------------------------------------------------------------------------------------
if fresh then redis.call("HSET", q.q, "claims", c.number) end
claim.save(q, c)
return finish({ c.sealed == "0" and status.CONTINUE or status.OK, "", 0, c.count, c.bytes, place })
