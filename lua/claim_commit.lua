-- Commit every claim of a data pipeline up to a sequence number. Its messages count as received, all in one step; then they
-- are removed a page at a time, behind what is left of the claim before.
-- MS-MQDMPR 3.1.7.1.12 Dequeue Message End
--
-- CALLERS commit in mqredis/commands/claims.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] generation  of the queue
-- ARGV[4] owner  encoded
-- ARGV[5] lineage  which checkpoint of the owner
-- ARGV[6] claim_sequence  the last claim to commit; 0: only remove what is received already, whatever its lineage
-- RETURNS OK messages removed by this call
-- RETURNS CONTINUE messages removed by this call, 1 if all up to the sequence count as received: call again
-- RETURNS LOCK_LOST why: foreign | released | open
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/timers"
--- require "claims/claims"
--- require "claims/drain"
--- require "waiting/waiters"
-- Change together with: WHY in mqredis/commands/claims.py, which explains each word of LOCK_LOST to users; claims.refuses, which
-- has the rules of the other scripts: a sequence that is committed already is no fault here.
-- Tests: tests/client/test_claims.py, test_claim_random_runs.py.
local generation, owner, lineage, seq = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local reply = context.open()
if reply then return reply end
local q = queue.open(1)
if not q or q.generation ~= generation then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.open_parent(q)
timers.serve(q, true)

-- `result`: the fourth element of the reply; `received`: the fifth, of CONTINUE.
local function finish(code, result, received)
  return waiters.finish(q, context.missing or context.reply(code, result, code == status.CONTINUE and received or nil))
end
if context.missing then return finish() end

-- decide -----------------------------------------------------------------------------------------
local claim = claims.open(q, owner)
if not claim then return finish(status.OK, 0) end -- the owner was forgotten (claim_release.lua)
local commits_something = seq > claim.committed
local why
if seq > 0 and claim.lineage ~= lineage then
  why = "foreign"
elseif commits_something and claim.sealed == claims.released then
  why = "released"
elseif commits_something and seq >= claim.seq and claim.sealed == claims.filling then
  why = "open"
end
if why then return finish(status.LOCK_LOST, why) end

-- Is the present claim still to be committed by this call?
local function is_pending() return claim.seq > claim.committed and seq >= claim.seq end

-- Commits the present claim if it is to be committed: its messages count as received from here on, and are to be removed
-- (claims/drain). Does nothing while messages of the claim before are left, which are removed first.
local function commit()
  if claim.draining or not is_pending() then return end
  claim.committed, claim.draining = claim.seq, claim.number
  claim.count, claim.bytes, claim.since = 0, 0, context.now_text
end

commit()
if not claim.draining then return finish(status.OK, 0) end

-- apply ------------------------------------------------------------------------------------------
local count = drain.page(q, claim)
if context.missing then return finish() end
commit() -- now, if only the claim before was in the way
claims.save(q, claim)
return finish(claim.draining and status.CONTINUE or status.OK, count, is_pending() and 0 or 1)
