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
--- require "lib/frame"
--- require "lib/queue"
--- require "lib/quota"
--- require "lib/tx"
--- require "lib/outcome"
--- require "lib/wake"
--- require "lib/txlog"
local reply = frame.open()
if reply then return reply end

-- decide -----------------------------------------------------------------------------------------
local text = redis.call("HGET", KEYS[2], ARGV[3])
if not text then return frame.close({ status.TRANSACTION_SEQUENCE }) end
local deadline, fence, count = string.match(text, "^(%d+) (%d+) (%d+)")
if fence ~= ARGV[4] then return frame.close({ status.TRANSACTION_SEQUENCE }) end
local t = { id = ARGV[3], count = tonumber(count) }
local ops = txlog.operations(t)
local queues, gone = txlog.queues()
local missing = txlog.missing(ops, queues, gone)
if #missing > 0 then
  reply = { status.KEYS_CHANGED, "", 0 }
  for n = 1, #missing do reply[n + 3] = missing[n] end
  return frame.close(reply)
end
local late = tonumber(deadline) <= frame.now
local order = ARGV[5] ~= "prepare" and outcome.gather(t, ops, queues) or {}
if not outcome.plan(order, ARGV[5] == "commit" and not late) then return frame.close(frame.missing) end

-- apply ------------------------------------------------------------------------------------------
-- What a prepare would mark nobody sees before the commit, which marks as well: operations may still follow.
if ARGV[5] == "prepare" and not late then return frame.close({ status.OK }) end
if ARGV[5] == "commit" and not late then
  outcome.mark(ops, queues, order)
  outcome.commit(order, queues)
else
  outcome.abort(order)
end
txlog.forget(t)
for _, q in pairs(queues) do quota.save(q) end
reply = frame.close({ late and status.TRANSACTION_SEQUENCE or status.OK })
for _, q in pairs(queues) do wake.ring(q) end
return reply
