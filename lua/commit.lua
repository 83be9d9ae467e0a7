-- End a transaction: commit makes what it sent appear and what it received go, abort undoes both; or prepare it.
-- MS-MQDMPR 3.1.4.3 Transaction Prepare, 3.1.4.4 Transaction Commit, 3.1.4.5 Transaction Abort
--
-- CALLERS end in mqredis/commands/transactions.py
-- KEYS message
-- QUEUE[1+] every queue it touched, targets of moves and parents of subqueues
-- ARGV[3] transaction  id
-- ARGV[4] fence  of the transaction
-- ARGV[5] outcome  commit | abort | prepare
-- ARGV[6?] default_verdict  how an abort gives back what was received (release.note_verdict in core/release); "" as "a"
-- ARGV[7+] verdict  lookup id and how that message is given back, in turn: a commit gives it back, too
-- RETURNS OK
-- RETURNS TRANSACTION_SEQUENCE no transaction with this id and fence is open; one whose lease is over was aborted
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/store"
--- require "transactions/touched"
--- require "transactions/commit"
--- require "transactions/tx_parts"
--- require "waiting/waiters"
--- require "transactions/tx"
-- Change together with: tx_abort.lua, which ends a transaction in the same steps; core/lapse, with which a queue undoes its part
-- after the lease of the transaction. Tests: tests/conformance/test_transaction.py, tests/msmq/test_ends.py.
local id, fence, outcome, default_verdict = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local verdicts = default_verdict and {} -- by lookup id; nil if the call leaves out the arguments from ARGV[6] on
for n = 7, #ARGV, 2 do verdicts[ARGV[n]] = ARGV[n + 1] end
-- The headers of the first two queues are read with what every call reads of meta (context.open). A queue that is not there has no
-- key, and "" is no field.
local first_key, second_key = queue.nth_key(1) or "", queue.nth_key(2) or ""
local meta = redis.call("HMGET", KEYS[1], "config", "counters", ARGV[1], first_key, second_key)
local reply = context.open(nil, meta)
if reply then return reply end

-- decide -----------------------------------------------------------------------------------------
local transaction = tx.read(id)
if not transaction or transaction.fence ~= fence then return context.close({ status.TRANSACTION_SEQUENCE }) end
local late = not transaction.is_open -- its lease is over: it is aborted, whatever the call asks for
local queues, gone = touched.queues(meta[5]) -- by encoded name; names of those that were deleted
local parts = tx_parts.group(transaction, queues, gone)
if context.missing then return context.close(context.missing) end
-- A commit can be refused only since the lease is over, so there is nothing to prepare, and operations may still follow.
if outcome == "prepare" and not late then return context.close({ status.OK }) end
local aborting = outcome == "abort" or late
if not tx_parts.plan(transaction, parts, aborting, verdicts, default_verdict) then
  return context.close(context.missing)
end

-- apply ------------------------------------------------------------------------------------------
if aborting then
  commit.abort(parts)
else
  commit.apply(transaction, parts, queues)
end
tx.forget(transaction)
for _, q in pairs(queues) do store.save(q) end
reply = context.close({ late and status.TRANSACTION_SEQUENCE or status.OK })
for _, q in pairs(queues) do waiters.notify(q) end
return reply
