-- End a transaction: commit makes what it sent appear and what it received go, abort undoes it; or prepare it.
-- MS-MQDMPR 3.1.4.3 Transaction Prepare, 3.1.4.4 Transaction Commit, 3.1.4.5 Transaction Abort
--
-- KEYS message
-- QUEUE[1+] every queue it touched, targets of moves and parents of subqueues
-- ARGV[3] transaction  id
-- ARGV[4] fence
-- ARGV[5] outcome  commit | abort | prepare
-- RETURNS OK
-- RETURNS TRANSACTION_SEQUENCE
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "transactions/straight_tx"
--- require "transactions/outcome"
--- require "waiting/waiters"
--- require "transactions/txlog"
--- require "core/store"
-- With what each call reads of meta (context.read), the lines of the first two queues.
local meta = redis.call("HMGET", KEYS[1], "brief", "counts", ARGV[1], KEYS[3] or "", KEYS[11] or "")
local reply = context.open(false, meta, redis.call("TIME"))
if reply then return reply end

-- decide -----------------------------------------------------------------------------------------
local texts, count, deadline, fence = txlog.read(ARGV[3])
if fence ~= ARGV[4] then return context.close({ status.TRANSACTION_SEQUENCE }) end
local t, late = { id = ARGV[3], fence = fence }, deadline + 0 <= context.now
if ARGV[5] == "commit" and not late then
  reply = straight_tx.commit(t.id, fence, texts, count, meta[4], meta[5])
  if reply then return reply end
end
local queues, gone = txlog.queues(meta[4], meta[5])
local order, first, from, last, upto = outcome.parts(texts, count, queues, gone)
if context.missing then return context.close(context.missing) end
if ARGV[5] == "prepare" then
  -- What it would mark nobody sees before the commit, which marks as well: operations may still follow.
  if not late then return context.close({ status.OK }) end
  order = {}
end
local commit = ARGV[5] == "commit" and not late
if not outcome.plan(t, order, commit) then return context.close(context.missing) end

-- apply ------------------------------------------------------------------------------------------
if commit then
  outcome.mark(first, from, last, upto)
  outcome.commit(order, queues)
else
  outcome.abort(order)
end
txlog.forget(t.id, count)
for _, q in pairs(queues) do store.save(q) end
reply = context.close({ late and status.TRANSACTION_SEQUENCE or status.OK })
for _, q in pairs(queues) do waiters.ring(q) end
return reply
