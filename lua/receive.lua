-- Take, lock or receive in a transaction the first available messages of a queue; settle earlier locks on the way.
-- MS-MQDMPR 3.1.7.1.10 Dequeue Message, 3.1.7.1.11 Dequeue Message Begin, 3.2.7.4 Get Next Message For Dequeue
--
-- CALLERS receive in mqredis/commands/read.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] generation  of the queue behind the handle
-- ARGV[4] mode  take | lock | tx
-- ARGV[5] count  messages at most
-- ARGV[6] owner  id of the transaction, "" otherwise
-- ARGV[7] grant  fence of the transaction, "+lease_ms" to begin it here; lease of the locks in ms; "" for take
-- ARGV[8?] cursor  "" none; else a letter of seek.cursors and an id: unread or read, and the id that the cursor is on ("" in
--   front of the first message, "end" behind the last one); after, and the id behind which a search goes on
-- ARGV[9] waiter  "<kind> <mode> <tag>" to register when nothing is found (waiting/waiters), with ",<lease in ms>" behind it if a
--   lock may be handed over (waiting/handoff); "" to register nothing
-- ARGV[10] ticket  "" first registration; its ticket on later polls; on the last one "leave" and its end from the colon on;
--   "nowait" without a waiter: a cursor behind which nothing is gets MESSAGE_NOT_FOUND
-- ARGV[11] filter  which messages match, "" all (matching/filter)
-- ARGV[12+] settlement  three for each run: action, fence, ids (core/settle); only if mode is lock
-- RETURNS OK fence, deadline in ms, now in ms, number of elements about lost locks, those, then messages (core/message)
-- RETURNS WAITING ticket, ms until the next timer of the queue or -1, number of elements about lost locks, those
-- RETURNS CONTINUE as WAITING, then the id behind which the search goes on
-- RETURNS MATCH_OPTIONS
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS MESSAGE_NOT_FOUND
-- RETURNS MESSAGE_ALREADY_RECEIVED
-- RETURNS OPERATION_CANCELLED
-- RETURNS GET_INHIBITED
-- RETURNS TRANSACTION_USAGE
-- RETURNS TRANSACTION_SEQUENCE
-- RETURNS TRANSACTION_TOO_LARGE
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/message"
--- require lazy "core/message_state"
--- require "core/position"
--- require "core/removal"
--- require "core/queue"
--- require "core/seek"
--- require "core/settle"
--- require "core/timers"
--- require "waiting/waiters"
--- require lazy "waiting/waiter_text"
--- require lazy "features/group_lock"
--- require lazy "matching/search"
--- require lazy "transactions/tx"
--- require lazy "waiting/handoff"
-- Change together with: handoff.is_plain (waiting/handoff), for another option of queues that matters here;
-- mqredis/operations/interruption.py, which takes the fence from the reply; lookup.lua, whose reply mqredis/commands/read.py parses
-- with the same function; peek.lua, which takes cursor, waiter, ticket and filter in the same way (mqredis/operations/wait.py).
-- Tests: tests/conformance/test_receive.py, test_lock.py, test_wait.py; tests/client/test_lock_many.py, test_handoff.py.
local generation, mode, count, owner, grant = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
-- A call that says nothing with the arguments from ARGV[8] on leaves them out.
local cursor, registration, ticket, filter_text = ARGV[8] or "", ARGV[9] or "", ARGV[10] or "", ARGV[11] or ""
local settlements_at, waits = 12, registration ~= ""

local reply = context.open(waits)
if reply then return reply end
local q = queue.read(1)
if context.again then -- a repeated call
  q = queue.open(1)
  return message.again(q)
end
if context.handover and q and mode == "lock" and ticket ~= "" then -- a sender has made this call for the reader
  q = queue.open(1)
  if handoff.held(q) then return handoff.confirm(q) end
end
if not q or q.generation ~= generation then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.open_parent(q)
timers.serve(q)

-- decide -----------------------------------------------------------------------------------------
-- All that refuses the call comes before the first settlement: a refusal has settled nothing.
if context.missing then return waiters.finish(q, context.missing) end
if q.options.get_inhibited then return waiters.finish(q, { status.GET_INHIBITED }) end
count = count + 0 -- as a number
local transaction, code
if mode == "tx" then
  transaction, code = tx.enter(q, owner, grant)
  if code then return waiters.finish(q, { code }) end
  count = math.min(count, tx.most - transaction.count)
end
-- waiter: the reader as a member of q.waiters; notified_id: the message that it was notified of (waiting/waiter_text).
local notified_id, waiter
if waits then
  waiter = waiter_text.member(registration, filter_text)
  local kind, rest = waiter_text.take()
  -- Without a ticket this wait begins, and what was kept for the slot is of an earlier one.
  if ticket ~= "" and kind == "cancelled" then return waiters.finish(q, { rest + 0 }) end
  if ticket ~= "" and kind == "notified" then notified_id = rest end
end
local groups_take_turns = q.locks_groups
local cursor_kind, from, current = "", "", nil -- current: the entry that a cursor is on
if cursor ~= "" then
  cursor_kind, from = string.sub(cursor, 1, 1), string.sub(cursor, 2)
  if cursor_kind == seek.cursors.read then
    current = seek.current(q, from)
    if not current or groups_take_turns and group_lock.busy(q, current.rec) then
      return waiters.finish(q, { status.MESSAGE_ALREADY_RECEIVED })
    end
  end
end
-- A search may refuse a filter, and here it would do so after the settlements.
if ARGV[settlements_at] and filter_text ~= "" then
  code = search.refuses(q, filter_text)
  if code then return waiters.finish(q, { code }) end
end

-- settle -----------------------------------------------------------------------------------------
local lost = settle.all(q, ARGV, settlements_at, 0) -- what the reply says of lost locks
if not lost then return waiters.finish(q, context.missing) end

-- choose -----------------------------------------------------------------------------------------
-- The first of these ways that applies. All but the last one give entries; what comes of it are columns (core/position).
-- continue_from: the id behind which a search goes on that found nothing; groups: those whose turn it is (features/group_lock)
local ids, recs, states, entries, continue_from, groups
if current then -- a cursor whose message was read: this message
  entries = { current }
elseif filter_text ~= "" then -- the first messages that match
  local seen = cursor == "" and waiters.seen(q, waiter, ticket)
  entries, continue_from, code = search.look(q, filter_text, from, count,
    { takes = true, notified_id = notified_id, seen = seen })
  if code then return waiters.finish(q, { code }) end
elseif notified_id and (cursor ~= "" or count == 1 and not groups_take_turns)
  and redis.call("ZSCORE", q.available, notified_id) then
  -- The message that this waiting reader was notified of. A batch begins at the front of the queue instead.
  entries = position.read(q, { notified_id })
elseif from == "end" then -- a cursor behind the last message: nothing
  entries = {}
elseif groups_take_turns and cursor == "" then -- the first message of each group whose turn it is
  entries, groups = group_lock.next_in_turn(q, count)
else -- the first available messages
  ids, recs, states = seek.available(q, from, count)
end
if entries then ids, recs, states = position.columns_of(entries) end

-- A whole group may be more messages than were asked for.
if transaction and #ids > tx.most - transaction.count then
  return waiters.finish(q, { status.TRANSACTION_TOO_LARGE })
end

-- wait -------------------------------------------------------------------------------------------
if not ids[1] then
  if not waits and cursor_kind == seek.cursors.unread and ticket == "nowait" and not continue_from then
    return waiters.finish(q, { status.MESSAGE_NOT_FOUND })
  end
  code, ticket = waiters.found_nothing(q, waiter, ticket, filter_text, from, continue_from)
  reply = context.reply(code, ticket, timers.next(q), #lost)
  for n = 1, #lost do reply[#reply + 1] = lost[n] end
  reply[#reply + 1] = continue_from
  return waiters.finish(q, reply)
end

-- apply ------------------------------------------------------------------------------------------
if ids[2] and not (entries and entries.whole) then seek.limit(q, ids, recs, states) end
if mode == "take" then
  entries = position.entries(ids, recs, states)
  if not removal.plan(q, entries, "receive") then return waiters.finish(q, context.missing) end
end
if waits then waiters.drop(q, waiter, filter_text) end
if groups then group_lock.move_turns(q, groups, ids) end
context.mark_changed()
if mode == "take" then
  reply = message.found("", "", lost)
  message.add(q, reply, ids, recs, message.join_states(states, #ids, ""))
  removal.delete(q, entries, "receive")
  if filter_text ~= "" then waiters.offer_again(q) end
  if groups_take_turns then waiters.offer_turn(q) end
  return waiters.finish(q, reply)
end
local lock
if transaction then
  lock = tx.lock(transaction, message_state.received)
else
  lock = position.reader_lock(message_state.by_reader, ARGV[1], grant)
end
reply = message.found(lock.fence, lock.deadline, lost)
local upto = #reply -- the messages behind it are left out of the reply that is kept, and read again (context.close)
position.lock(q, ids, recs, states, lock)
message.add(q, reply, ids, recs, message.join_states(states, #ids, message_state.locked_once))
if filter_text ~= "" then waiters.offer_again(q) end
if transaction then tx.add(transaction, q, tx.received, ids) end
return waiters.finish(q, reply, upto, ids[2] and table.concat(ids, ",") or ids[1])
