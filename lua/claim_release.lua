-- Take a claim from its owner: its messages go back to their places, a page at a time, and its checkpoint is refused from
-- now on, since a restarted pipeline would claim other messages for the same batch. Messages that are committed do not come
-- back: they are removed first.
-- MS-MQDMPR 3.1.7.1.12 Dequeue Message End
--
-- CALLERS claim_release in mqredis/commands/claims.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] owner  encoded
-- ARGV[4] forget  "1": remove what is known of the owner too
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
--- require "claims/claim"
--- require "claims/claim_pages"
--- require lazy "claims/drain"
--- require "waiting/waiters"
local owner, forget = ARGV[3], ARGV[4] == "1"
local reply = context.open()
if reply then return reply end
local q = queue.open(1)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end
queue.open_parent(q)
local c = claim.open(q, owner)
if not c then return context.close({ status.STATUS_NOT_FOUND }) end
timers.serve(q, true)

local function finish(code, count)
  return waiters.finish(q, context.missing or context.reply(code, count))
end

-- First the messages of a committed claim, which were received.
if c.draining and not context.missing then
  drain.load()
  drain.page(q, c)
  if not (context.missing or c.draining) then claim.save(q, c) end
  return finish(status.CONTINUE, 0)
end

-- Then those of the present claim.
local list, ids = claim_pages.list(q, c.number), claim_pages.front(q, c.number, claim.page)
local entries = position.read(q, ids)
if not context.missing and release.plan(q, entries) then
  if #entries > 0 then release.unlock(q, entries, false) end
  c.seq, c.count, c.bytes, c.sealed = c.committed, 0, 0, claim.released
  claim.save(q, c)
  if list then claim_pages.trim(q, list) end
  if #ids < claim.page and forget then claim.forget(q, c.owner) end
end
return finish(#ids == claim.page and status.CONTINUE or status.OK, #ids)
