-- Who has locked messages of a queue: a page of its locks, in the order in which their leases end. Messages that a data
-- pipeline has claimed are not among them (claim_list.lua). Changes nothing and serves no timers: a lease that is over stays
-- in the list until another call gives the message back.
-- MS-MQDMPR 3.1.7.1.11 Dequeue Message Begin
--
-- CALLERS locks in mqredis/commands/inspection.py
-- KEYS message
-- QUEUE[1] the queue
-- ARGV[3] count  locks at most
-- ARGV[4] deadline  in ms as it was shown, and ARGV[5] the id, of the last lock of the page before; "" for the first page
-- ARGV[5] id  lookup id
-- RETURNS OK now in ms, number of locks, then of each: lookup id, end of the lease in ms, when it was locked in ms or "" if that
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
local count, deadline, id = ARGV[3] + 0, ARGV[4], ARGV[5]
local largest = 65536
local reply = context.observe()
if reply then return reply end
local q = queue.read(1, 2)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end

if deadline ~= "" then deadline = string.format("%.0f", deadline + context.lead) end

-- Locks of the queue's header, then those that are elements of q.locked.
local found = locks.page(q, deadline, id, count)
local rows = ordered.page(q.locked, deadline, id, count)
for n = 1, #rows, 2 do
  local score = tonumber(rows[n + 1])
  if score < queue.claimed then found[#found + 1] = { id = rows[n], deadline = score } end
end
table.sort(found, function(left, right)
  if left.deadline == right.deadline then return left.id < right.id end
  return left.deadline < right.deadline
end)

-- When the lock with this fence was made, if the slot was not used since; else "".
local function since(slot, fence)
  if redis.call("HSTRLEN", KEYS[1], slot) > largest then return "" end
  local kept = redis.call("HGET", KEYS[1], slot)
  local time, history
  if kept then time, history = context.reply_moment(kept) end
  return history == fence and context.shown(time) or ""
end

local units, sessions, size = {}, {}, math.min(count, #found)
reply = { status.OK, "", 0, context.now - context.lead, size }
for n = 1, size do
  local lock = found[n]
  local state = not lock.fence and redis.call("HGET", q.states, lock.id)
  local st = state and message_state.parse(state)
    or { deliveries = 1, uncounted = 0, kind = message_state.by_reader, owner = lock.slot or "-",
      fence = lock.fence or "0" }
  local session, at = string.match(st.owner, "^(%d+)%.%d+$"), #reply
  if not message_state.is_reader_lock(st) then
    session = units[st.owner]
    if session == nil then
      local _, _, _, opened = tx.parse(redis.call("HGET", KEYS[2], st.owner) or "")
      session = opened or false
      units[st.owner] = session
    end
  end
  if session and not sessions[session] then
    sessions[session] = redis.call("HGET", KEYS[1], "client:" .. session) or ""
  end
  local rec = redis.call("HSTRLEN", q.records, lock.id) <= largest and redis.call("HGET", q.records, lock.id)
  reply[at + 1], reply[at + 2] = lock.id, context.shown(lock.deadline)
  reply[at + 3] = message_state.is_reader_lock(st) and since(st.owner, st.fence) or ""
  reply[at + 4], reply[at + 5], reply[at + 6] = st.kind, st.owner, st.fence
  reply[at + 7], reply[at + 8] = st.deliveries, st.uncounted
  reply[at + 9] = rec and record.field(rec, "message_id") or ""
  reply[at + 10] = rec and record.field(rec, "label") or ""
end
for number, client in pairs(sessions) do
  reply[#reply + 1], reply[#reply + 2] = number, client
end
reply[#reply + 1] = "-"
for unit, number in pairs(units) do
  reply[#reply + 1], reply[#reply + 2] = unit, number or ""
end
return context.close(reply)
