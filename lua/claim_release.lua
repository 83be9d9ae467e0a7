-- Take a claim from its owner: its messages go back to their places, a page at a time, and its checkpoint is refused from
-- now on, since a restarted pipeline would claim other messages for the same batch. Messages that are committed do not come
-- back: they are removed first.
-- MS-MQDMPR 3.1.7.1.12 Dequeue Message End
--
-- CALLERS release in mqredis/commands/claims.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] owner  encoded
-- ARGV[4] forget  "1": remove what is known of the owner too, and so what refuses its checkpoint; a reader that is not known
--   begins at a new sequence (mqredis/spark/starting.py)
-- RETURNS OK messages given back by this call
-- RETURNS CONTINUE messages given back by this call: call again
-- RETURNS STATUS_NOT_FOUND
-- RETURNS QUEUE_NOT_FOUND
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/timers"
--- require "core/position"
--- require "core/release"
--- require "claims/claims"
--- require "claims/claim_pages"
--- require "claims/loosen"
--- require lazy "claims/drain"
--- require "waiting/waiters"
-- Tests: tests/client/test_claims.py, test_claim_random_runs.py.
local owner, forget = ARGV[3], ARGV[4] == "1"
local reply = context.open()
if reply then return reply end
local q = queue.open(1)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end
queue.open_parent(q)
local claim = claims.open(q, owner)
if not claim then return context.close({ status.STATUS_NOT_FOUND }) end
timers.serve(q, true)

local function finish(code, count)
  return waiters.finish(q, context.missing or context.reply(code, count))
end

if context.missing then return finish() end

-- First a page of a committed claim, whose messages were received (claims/drain): none of them is given back.
if claim.draining then
  drain.page(q, claim)
  if not claim.draining then claims.save(q, claim) end
  return finish(status.CONTINUE, 0)
end

-- Then a page of the present claim. release.unlock needs the state of each message, which loosen.lowest_ids has written.
local list, most = claim_pages.list(q, claim.number), claims.page_with_records
local ids = loosen.lowest_ids(q, claim.number, most)
local entries, is_last_page = position.read(q, ids), #ids < most
if not release.plan(q, entries) then return finish() end
release.unlock(q, entries)
claim.seq, claim.count, claim.bytes, claim.sealed = claim.committed, 0, 0, claims.released
claims.save(q, claim)
if list then claim_pages.trim(q, list) end
if is_last_page and forget then claims.forget(q, owner) end
return finish(is_last_page and status.OK or status.CONTINUE, #ids)
