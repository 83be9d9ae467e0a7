-- Put 1..N messages into a queue: all of them, or none.
-- MS-MQDMPR 3.1.7.1.9 Enqueue Message
--
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue, and queues that KEYS_CHANGED named
-- ARGV[3] generation  of the queue behind the handle
-- ARGV[4] transaction  id, "" outside a transaction; of one message outside of one, which has no large body, its priority
-- ARGV[5] fence  of the transaction, "+lease_ms" to begin it here, "" outside; or that one message, and nothing behind it
-- ARGV[6?] priorities  a digit for each message
-- ARGV[7+] message  flag digit, head, NUL, body (core/record); behind one with flag bit 8 its large body
-- RETURNS OK ids of the messages (16 digits each, nothing between them), fence of the transaction if there is one
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS TRANSACTION_SEQUENCE
-- RETURNS TRANSACTION_USAGE
-- RETURNS TRANSACTION_TOO_LARGE
-- RETURNS PUT_INHIBITED
-- RETURNS MESSAGE_TOO_LARGE
-- RETURNS ENQUEUE_TIMED_OUT
-- RETURNS ENQUEUE_MANAGER_QUOTA
-- RETURNS ENQUEUE_QUEUE_QUOTA
-- RETURNS DUPLICATE
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
--- require "core/straight_send"
--- require lazy "core/straight_sends"
--- require lazy "transactions/straight_tx"
--- require "core/context"
--- require "core/queue"
--- require "core/due"
--- require "core/enqueue"
--- require lazy "features/special"
--- require lazy "features/trace"
--- require lazy "features/refusal"
--- require "core/quota"
--- require "waiting/handoff"
--- require "core/record"
--- require lazy "transactions/tx"
--- require "waiting/waiters"
--- require "core/store"
local reply, meta, time, line
if not ARGV[6] then
  reply, meta, time, line = straight_send.one()
  if reply then return reply end
  ARGV[4], ARGV[5], ARGV[6], ARGV[7] = "", "", ARGV[4], ARGV[5]
elseif ARGV[4] ~= "" then
  straight_tx.load()
  reply, meta, time, line = straight_tx.send()
elseif ARGV[8] then
  straight_sends.load()
  reply, meta, time, line = straight_sends.all()
end
reply = reply or context.open(false, meta, time)
if reply then return reply end
local q = queue.open(1, 2, line)
if not q or q.generation ~= ARGV[3] then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
local more = due.serve(q, true)

-- decide -----------------------------------------------------------------------------------------
local handed
local function finish(answer)
  store.save(q)
  answer = context.close(answer)
  if handed then handoff.say(unpack(handed)) end
  waiters.ring(q)
  return answer
end

-- A refusal may leave negative acknowledgements and dead letters; that, too, is decided first. What is over but not gone
-- refuses nobody.
local function refuse(code)
  if more then due.again() end
  if not context.missing then
    refusal.load()
    refusal.trace(q, code)
  end
  return finish(context.missing or { code })
end

if context.missing then return finish(context.missing) end
local t, code
if (ARGV[4] ~= "") ~= queue.has(q, "t") then return refuse(status.TRANSACTION_USAGE) end
if queue.has(q, "p") then return refuse(status.PUT_INHIBITED) end
if ARGV[4] ~= "" then
  tx.load()
  t, code = tx.open(ARGV[4], ARGV[5])
  if not t then return refuse(code) end
end
local recs, larges, bytes, hooked, asked = enqueue.parse(q, 6)
if not recs then return refuse(larges) end
if t and t.count + #recs > tx.most then return refuse(status.TRANSACTION_TOO_LARGE) end
code = quota.refuses(q, #recs, bytes)
if code then return refuse(code) end
local entries = (asked or queue.has(q, "x")) and enqueue.entries(recs, larges, ARGV[6])
if asked then
  special.load()
  trace.load()
  if special.duplicate(q, entries) then return refuse(status.DUPLICATE) end
  if not t then
    trace.accepted(q, entries, false)
    trace.expiring(q, entries)
  end
  if context.missing then return finish(context.missing) end
end

-- apply ------------------------------------------------------------------------------------------
context.mark_changed()
local lids
if entries then
  lids = enqueue.number(entries, t)
  if asked then special.hold(q, entries) end
  enqueue.store(q, entries, t, hooked, asked)
else
  lids = enqueue.lids(ARGV[6], #recs, t)
  if t then
    enqueue.held(q, recs, larges, lids, bytes, hooked, t)
  else
    enqueue.quick(q, recs, larges, lids, bytes, hooked)
    if q.waiting and #q.arrived == 1 and q.flags == "" and not q.parent and record.free[string.byte(recs[1], 14)] then
      handed = handoff.over(q, lids[1], recs[1])
    end
  end
end
return finish({ status.OK, "", 0, table.concat(lids), t and t.fence })
