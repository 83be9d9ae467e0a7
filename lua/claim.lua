-- Claim the next messages of a queue for a data pipeline, a page at a time, under an owner and a sequence number.
-- Repeated, it answers the same claim: once sealed, what it holds never changes.
-- MS-MQDMPR 3.1.7.1.11 Dequeue Message Begin
--
-- CALLERS claim in mqredis/commands/claims.py
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
-- RETURNS OK messages and bytes of the claim, which is sealed
-- RETURNS CONTINUE messages and bytes so far, place: call again
-- RETURNS LOCK_LOST why: foreign | running | released | stale | fenced | open | gap
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS GET_INHIBITED
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/timers"
--- require "claims/claims"
--- require "claims/claim_pages"
--- require "claims/fill"
--- require "waiting/waiters"
-- Change together with: WHY in mqredis/commands/claims.py, which explains each word of LOCK_LOST to users; claims/fill, which takes
-- `limits`; claim_match.lua, which has the same limits. Tests: tests/client/test_claims.py,
-- test_claim_choice.py, test_claim_random_runs.py.
local generation, owner, lineage, seq, wanted = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local limits = { max_bytes = tonumber(ARGV[8]), bound = ARGV[9], after = ARGV[11], filter = ARGV[12],
  place = ARGV[13] } -- for fill.plan
local may_take_over = ARGV[10] == "1"
local reply = context.open()
if reply then return reply end
local q = queue.open(1)
if not q or q.generation ~= generation then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.open_parent(q)
timers.serve(q, true)

local function lost(why) return waiters.finish(q, context.reply(status.LOCK_LOST, why)) end
if context.missing then return waiters.finish(q, context.missing) end

-- decide -----------------------------------------------------------------------------------------
-- Whose claim is it? That of this checkpoint, or it is taken over.
local claim, taken_over = claims.open(q, owner), nil
if not claim then -- the owner's first claim; or the queue was restored, and does not know the claims before it
  if seq ~= 1 and not may_take_over then return lost("gap") end
  claim = claims.new(owner, lineage, seq)
elseif claim.lineage ~= lineage and may_take_over and seq == claim.committed + 1 then
  if claims.alive(claim) then return lost("running") end
  if claim.sealed == claims.released and claim_pages.held(q, claim.number) > 0 then return lost("released") end
  claim.lineage, taken_over = lineage, true
  -- All that was released is back, so the checkpoint that has taken over is not refused.
  if claim.sealed == claims.released then claim.sealed = claims.complete end
end
-- Which sequence is it? The next one, which begins a claim, or the present one, which may be filling still.
local why, is_new = claims.refuses(claim, lineage, seq), seq > claim.seq
if not why and is_new and claim.seq > claim.committed then why = "open" end
if not why and is_new and seq ~= claim.committed + 1 then why = "gap" end
if why then return lost(why) end
if is_new and q.options.get_inhibited then return waiters.finish(q, { status.GET_INHIBITED }) end
if not is_new and claim.sealed ~= claims.filling then -- a repeated call: the claim is complete
  if taken_over then claims.save(q, claim) end
  return waiters.finish(q, context.reply(status.OK, claim.count, claim.bytes))
end
if is_new then
  claim.seq, claim.wanted, claim.count, claim.bytes = seq, wanted, 0, 0
  claim.sealed, claim.since, claim.number = claims.filling, context.now_text, claims.next_number(q)
end
local page = fill.plan(q, claim, limits)
if not page then return waiters.finish(q, context.missing) end

-- apply ------------------------------------------------------------------------------------------
fill.apply(q, claim, page)
if is_new then claims.save_number(q, claim.number) end
claims.save(q, claim)
if claim.sealed ~= claims.filling then
  return waiters.finish(q, context.reply(status.OK, claim.count, claim.bytes))
end
return waiters.finish(q, context.reply(status.CONTINUE, claim.count, claim.bytes, page.place or ""))
