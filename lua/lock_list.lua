-- Who has locked messages of a queue: a page of its locks, in the order in which their leases end. Messages that a data
-- pipeline has claimed are not among them (claim_list.lua). Changes nothing and serves no timers: a lease that is over stays
-- in the list until another call gives the message back.
-- MS-MQDMPR 3.1.7.1.11 Dequeue Message Begin
--
-- CALLERS locks in mqredis/commands/inspection.py
-- KEYS message
-- QUEUE[1] the queue
-- ARGV[3] count  locks at most
-- ARGV[4] deadline  of the last lock that the page before has looked at, in ms as it was shown; "" for the first page
-- ARGV[5] id  lookup id of that lock's message
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
--- require lazy "core/message_state"
--- require lazy "core/record"
--- require "admin/ordered"
--- require "transactions/tx"
--- require lazy "matching/filter"
-- Change together with: LOCK_ELEMENTS in mqredis/commands/inspection.py, how many elements of the reply tell of one lock.
-- Tests: tests/inspection/test_holders.py, test_clock_set_back.py.
local count, deadline, id, filter_text = ARGV[3] + 0, ARGV[4], ARGV[5], ARGV[6]
-- largest: a longer kept reply is not read, nor a longer record that no filter needs; most_looks: locks that a filter tests.
local largest, most_looks = 65536, 256
local reply = context.observe()
if reply then return reply end
local q = queue.read(1)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end

local criteria, looks = nil, count -- looks: how many locks this call looks at
if filter_text ~= "" then criteria, looks = filter.parse(filter_text), most_looks end
if deadline ~= "" then deadline = string.format("%.0f", deadline + context.lead) end -- broker time from here on

-- Returns the locks behind `deadline` and `id`, in the order of both, as tables {id, deadline}; those of the queue's header
-- (core/locks) also have fence and slot. The list is complete up to `looks` locks, and may have more.
local function list_locks()
  local list = locks.page(q, deadline, id, looks)
  local members_scores = ordered.page(q.locked, deadline, id, looks) -- member, score, member, score, ...
  for n = 1, #members_scores, 2 do
    local score = tonumber(members_scores[n + 1]) -- a deadline, or a claim's
    if score < queue.claimed then list[#list + 1] = { id = members_scores[n], deadline = score } end
  end
  table.sort(list, function(left, right)
    if left.deadline == right.deadline then return left.id < right.id end
    return left.deadline < right.deadline
  end)
  return list
end

-- Returns the state of a locked message. A lock of the header, which has a fence, stands for a state of this kind, which is not
-- stored.
local function state_of(lock)
  local text = not lock.fence and redis.call("HGET", q.states, lock.id)
  return text and message_state.parse(text) or { deliveries = 1, uncounted = 0, kind = message_state.by_reader,
    owner = lock.slot or "-", fence = lock.fence or "0" }
end

-- Returns the record of a locked message; false or nil if there is none, or it is large and no filter needs it.
local function record_of(lock)
  return (criteria or redis.call("HSTRLEN", q.records, lock.id) <= largest) and redis.call("HGET", q.records, lock.id)
end

-- Returns when the lock with this fence was made; "" if its slot was used since, so that this is not known.
local function locked_at(slot, fence)
  if redis.call("HSTRLEN", KEYS[1], slot) > largest then return "" end
  local kept = redis.call("HGET", KEYS[1], slot)
  local time, history
  if kept then time, history = context.reply_moment(kept) end
  return history == fence and context.shown(time) or ""
end

-- What the end of the reply says. transactions: session by transaction id, false if it has ended; clients: client text by session.
local transactions, clients = {}, {}

-- Returns the session that holds a lock, as text; false or nil if that is not known.
local function session_of(state)
  if message_state.is_reader_lock(state) then return context.session_of(state.owner) end
  if transactions[state.owner] == nil then
    local transaction = tx.find(state.owner)
    transactions[state.owner] = transaction and transaction.session or false
  end
  return transactions[state.owner]
end

-- Appends what the reply says of a lock to a list. `rec`: of record_of.
local function append_lock(list, lock, rec)
  local state = state_of(lock)
  local session = session_of(state)
  if session and not clients[session] then
    clients[session] = redis.call("HGET", KEYS[1], "client:" .. session) or ""
  end
  local since = message_state.is_reader_lock(state) and locked_at(state.owner, state.fence) or ""
  context.append(list, lock.id, context.shown(lock.deadline), since, state.kind, state.owner, state.fence,
    state.deliveries, state.uncounted, rec and record.field(rec, "message_id") or "",
    rec and record.field(rec, "label") or "")
end

local elements, shown = {}, 0 -- of the locks that match: their elements in the reply, and how many they are
local last_deadline, last_id = "", "" -- of the last lock that was looked at, if others may be behind it
local list = list_locks()
for n = 1, math.min(looks, #list) do
  local lock = list[n]
  local rec = record_of(lock)
  if not criteria or rec and filter.test(criteria, lock.id, rec) then
    append_lock(elements, lock, rec)
    shown = shown + 1
  end
  if n == looks or shown == count or criteria and filter.out_of_time(criteria) then
    last_deadline, last_id = context.shown(lock.deadline), lock.id
    break
  end
end

reply = context.reply(status.OK, context.shown(context.now), last_deadline, last_id, shown)
for n = 1, #elements do reply[#reply + 1] = elements[n] end
for session, client in pairs(clients) do context.append(reply, session, client) end
context.append(reply, "-")
for transaction, session in pairs(transactions) do context.append(reply, transaction, session or "") end
return context.close(reply)
