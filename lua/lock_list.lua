-- Who has locked messages of a queue: a page of its locks, in the order in which their leases end. Messages that a data
-- pipeline has claimed are not among them (claim_list.lua). Changes nothing and serves no timers: a lease that is over stays
-- in the list until another call gives the message back.
-- MS-MQDMPR 3.1.7.1.11 Dequeue Message Begin
--
-- CALLERS locks in mqredis/commands/inspection.py
-- KEYS message
-- QUEUE[1] the queue
-- ARGV[3] count  locks at most
-- ARGV[4] deadline  in ms as it was shown, and ARGV[5] the id, of the last lock that the page before has looked at; "" for the
--   first page
-- ARGV[5] id  lookup id
-- ARGV[6] filter  which messages match, "" all (matching/filter)
-- RETURNS OK now in ms, end of the lease and id of the last lock that was looked at ("" and "" if there is no other behind it),
--   number of locks, then of each: lookup id, end of the lease in ms, when it was locked in ms or "" if that
--   is not known, kind and owner as in core/message_state, fence, deliveries, deliveries that are not attempts, message id and
--   label as in the record; then number and client text (core/session) of each session that holds one of them; behind "-"
--   the id and the session of each transaction
-- RETURNS QUEUE_NOT_FOUND
-- FLAGS no-writes
--- require "core/context"
--- require "core/queue"
--- require "core/locks"
--- require "core/message_state"
--- require "core/record"
--- require "admin/ordered"
--- require "transactions/tx"
--- require lazy "matching/filter"
local count, deadline, id, wanted = ARGV[3] + 0, ARGV[4], ARGV[5], ARGV[6]
-- largest: bytes of a kept reply or a record that is read where no filter needs it; looks: locks that a filter tests.
local largest, looks = 65536, 256
local reply = context.observe()
if reply then return reply end
local q = queue.read(1)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end

local f
if wanted == "" then
  looks = count
else
  filter.load()
  f = filter.parse(wanted)
end
if deadline ~= "" then deadline = string.format("%.0f", deadline + context.lead) end

-- Locks of the queue's header (core/locks), then those that are elements of q.locked.
local found = locks.page(q, deadline, id, looks)
local rows = ordered.page(q.locked, deadline, id, looks)
for n = 1, #rows, 2 do
  local score = tonumber(rows[n + 1])
  if score < queue.claimed then found[#found + 1] = { id = rows[n], deadline = score } end
end
table.sort(found, function(left, right)
  if left.deadline == right.deadline then return left.id < right.id end
  return left.deadline < right.deadline
end)

-- Returns the state of a locked message. A lock of the header stands for a state of this kind, which is not stored.
local function state_of(lock)
  local text = not lock.fence and redis.call("HGET", q.states, lock.id)
  return text and message_state.parse(text) or { deliveries = 1, uncounted = 0, kind = message_state.by_reader,
    owner = lock.slot or "-", fence = lock.fence or "0" }
end

-- Returns when the lock with this fence was made; "" if its slot was used since, so that this is not known.
local function locked_at(slot, fence)
  if redis.call("HSTRLEN", KEYS[1], slot) > largest then return "" end
  local kept = redis.call("HGET", KEYS[1], slot)
  local time, history
  if kept then time, history = context.reply_moment(kept) end
  return history == fence and context.shown(time) or ""
end

-- transactions: session by transaction id, false if it has ended; clients: client text by session.
local transactions, clients = {}, {}

-- Returns the session that holds a lock, as text; false or nil if that is not known.
local function session_of(state)
  if message_state.is_reader_lock(state) then return string.match(state.owner, "^(%d+)%.%d+$") end
  if transactions[state.owner] == nil then
    local transaction = tx.find(state.owner)
    transactions[state.owner] = transaction and transaction.session or false
  end
  return transactions[state.owner]
end

-- Appends a lock to the reply, whose element 7 counts them. `rec`: the record of its message, false or nil if it was not read.
local function append(lock, rec)
  local state, at = state_of(lock), #reply
  local session = session_of(state)
  if session and not clients[session] then
    clients[session] = redis.call("HGET", KEYS[1], "client:" .. session) or ""
  end
  reply[at + 1], reply[at + 2] = lock.id, context.shown(lock.deadline)
  reply[at + 3] = message_state.is_reader_lock(state) and locked_at(state.owner, state.fence) or ""
  reply[at + 4], reply[at + 5], reply[at + 6] = state.kind, state.owner, state.fence
  reply[at + 7], reply[at + 8] = state.deliveries, state.uncounted
  reply[at + 9] = rec and record.field(rec, "message_id") or ""
  reply[at + 10] = rec and record.field(rec, "label") or ""
  reply[7] = reply[7] + 1
end

reply = context.reply(status.OK, context.shown(context.now), "", "", 0)
for n = 1, math.min(looks, #found) do
  local lock = found[n]
  local rec = (f or redis.call("HSTRLEN", q.records, lock.id) <= largest) and redis.call("HGET", q.records, lock.id)
  if not f or rec and filter.test(f, lock.id, rec) then append(lock, rec) end
  if n == looks or reply[7] == count or f and filter.spent(f) then
    reply[5], reply[6] = context.shown(lock.deadline), lock.id
    break
  end
end
for session, client in pairs(clients) do
  reply[#reply + 1], reply[#reply + 2] = session, client
end
reply[#reply + 1] = "-"
for transaction, session in pairs(transactions) do
  reply[#reply + 1], reply[#reply + 2] = transaction, session or ""
end
return context.close(reply)
