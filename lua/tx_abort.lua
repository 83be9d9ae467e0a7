-- Abort an open transaction, as an operator decides. The client that had begun it is refused from then on.
-- MS-MQDMPR 3.1.4.5 Transaction Abort
--
-- CALLERS abort in mqredis/commands/bulk.py
-- KEYS message
-- QUEUE[1+] every queue it touched, targets of moves and parents of subqueues
-- KEYS the key of a token, if ARGV[3] is not "" (admin/operator)
-- ARGV[3] token  as in admin/operator
-- ARGV[4] entry  as in admin/operator
-- ARGV[5] transaction  id; no fence, since an operator ends whatever is open under this id
-- RETURNS OK
-- RETURNS TRANSACTION_SEQUENCE no transaction with this id is stored; one whose lease is over is aborted as well
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/store"
--- require "admin/operator"
--- require "transactions/touched"
--- require "transactions/commit"
--- require "transactions/tx_parts"
--- require "waiting/waiters"
--- require "transactions/tx"
-- Change together with: commit.lua, which aborts in the same steps. Tests: tests/operator/test_force.py.
local id = ARGV[5]
local reply = context.open()
if reply then return reply end
reply = operator.repeated()
if reply then return reply end

-- decide -----------------------------------------------------------------------------------------
local transaction = tx.read(id)
if not transaction then return context.close({ status.TRANSACTION_SEQUENCE }) end
local queues, gone = touched.queues() -- by encoded name; names of those that were deleted
local parts = tx_parts.group(transaction, queues, gone)
operator.plan()
if context.missing then return context.close(context.missing) end
if not tx_parts.plan(transaction, parts, true) then return context.close(context.missing) end

-- apply ------------------------------------------------------------------------------------------
commit.abort(parts)
tx.forget(transaction)
operator.log(transaction.count, true) -- how many operations were undone
for _, q in pairs(queues) do store.save(q) end
reply = operator.close({ status.OK })
for _, q in pairs(queues) do waiters.notify(q) end
return reply
