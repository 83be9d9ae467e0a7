-- Take, lock or receive in a transaction the first available messages of a queue; settle earlier locks on the way.
-- MS-MQDMPR 3.1.7.1.10 Dequeue Message, 3.1.7.1.11 Dequeue Message Begin, 3.2.7.4 Get Next Message For Dequeue
--
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] generation  of the queue behind the handle
-- ARGV[4] mode  take | lock | tx; or "next", behind which only a lease in ms, a fence and an id are: lock one, commit that
-- ARGV[5] count  messages at most
-- ARGV[6] owner  id of the transaction, "" otherwise
-- ARGV[7] grant  fence of the transaction; lease of the locks in ms; "" for take
-- ARGV[8?] cursor  "" none; "U" or "R" (Unread, Read) and the id it is on ("" Start, "end" End); "A" id: go on behind it
-- ARGV[9] waiter  kind, mode, tag to register when nothing is found, "" to register nothing (waiting/waiters, waiting/handoff)
-- ARGV[10] ticket  "" first registration; its ticket on the next looks; on the last one "leave" and its end from the colon on
-- ARGV[11] filter  which messages match, "" all (matching/filter)
-- ARGV[12] settlements  how many runs of them follow; 0 unless mode is lock
-- ARGV[13+] settlement  three for each run: action, fence, ids (core/settle)
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
--- require "core/straight"
--- require lazy "transactions/straight_tx"
--- require lazy "core/straight_locks"
--- require "core/context"
--- require "core/queue"
--- require "core/due"
--- require "core/seek"
--- require "core/position"
--- require "core/message"
--- require "core/settle"
--- require lazy "transactions/tx"
--- require "waiting/waiters"
--- require "waiting/handoff"
--- require lazy "matching/search"
--- require lazy "features/group_lock"
--- require "core/store"
-- What was left out, as the long way wants it.
local function unfold()
  if ARGV[8] then return end
  ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12] = "", "", "", "", "0"
  if ARGV[4] == "next" then
    ARGV[12], ARGV[13], ARGV[14], ARGV[15] = "1", "c", ARGV[6], ARGV[7]
    ARGV[4], ARGV[5], ARGV[6], ARGV[7] = "lock", "1", "", ARGV[5]
  end
end

local reply, meta, time, line, read
if ARGV[4] == "tx" then
  straight_tx.load()
  reply, meta, time, line = straight_tx.receive()
elseif ARGV[4] == "next" or ARGV[5] == "1" and #(ARGV[15] or "") <= 16 then
  reply, meta, time, line = straight.receive()
else
  unfold()
  straight_locks.load()
  reply, meta, time, line, read = straight_locks.all()
end
if reply then return reply end
unfold()
reply = context.open(ARGV[9] ~= "", meta, time)
if reply then return reply end
local q = queue.open(1, 2, line)
if context.again then
  local ids = {}
  for id in string.gmatch(context.again.ids, "%x+") do ids[#ids + 1] = id end
  message.all(q, context.again.reply, q and position.read(q, ids) or {})
  return context.again.reply
end
if context.handover and q and ARGV[4] == "lock" and ARGV[10] ~= "" and handoff.held(q) then
  handoff.asked()
  message.all(q, context.handover.reply, position.read(q, { context.handover.lid }))
  return context.handover.reply
end
if not q or q.generation ~= ARGV[3] then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.open_parent(q, 2)
due.serve(q)

-- Ends the script: counters, kept reply, doorbells of whatever the settlements and timers made available.
local function finish(code, upto, ids)
  -- The next call of this slot brings what is missing: nothing may be handed to it under that token.
  if context.missing and string.find(ARGV[9], ",", 1, true) then waiters.drop(q, waiters.member(ARGV[9], ""), "") end
  store.save(q)
  if type(code) == "number" then code = { code } end
  code = context.close(code, upto, ids)
  waiters.ring(q)
  return code
end

-- decide -----------------------------------------------------------------------------------------
-- Whatever refuses the call comes before the first settlement: a refusal has settled nothing.
if context.missing or queue.has(q, "g") then return finish(context.missing or status.GET_INHIBITED) end
local mode, count = ARGV[4], tonumber(ARGV[5])
local t, code
if mode == "tx" then
  if not queue.has(q, "t") then return finish(status.TRANSACTION_USAGE) end
  tx.load()
  t, code = tx.open(ARGV[6], ARGV[7])
  if not t then return finish(code) end
  count = math.min(count, tx.most - t.count)
  if count <= 0 then return finish(status.TRANSACTION_TOO_LARGE) end
end
local hint, waiter
if ARGV[9] ~= "" then
  waiter = waiters.member(ARGV[9], ARGV[11])
  local kind, rest = waiters.handed()
  if ARGV[10] ~= "" and kind == "c" then return finish(tonumber(rest)) end
  if ARGV[10] ~= "" and kind == "h" then hint = rest end
end
local cursor, from = "", ""
if ARGV[8] ~= "" then cursor, from = string.sub(ARGV[8], 1, 1), string.sub(ARGV[8], 2) end
local turns, entries, place, ids, recs = queue.has(q, "x") and not q.parent, nil, nil, nil, nil
if turns then group_lock.load() end
if cursor == "R" then
  entries = redis.call("ZSCORE", q.a, from) and position.read(q, { from }) or {}
  if #entries == 0 or seek.expired(entries[1]) or turns and group_lock.busy(q, entries[1].rec) then
    return finish(status.MESSAGE_ALREADY_RECEIVED)
  end
end
if ARGV[12] ~= "0" and string.find(ARGV[11], "\3G", 1, true) then
  search.load()
  code = search.refuses(q, ARGV[11])
  if code then return finish(code) end
end
local lost = ARGV[12] == "0" and {} or settle.all(q, 13, tonumber(ARGV[12]), 0)
if not lost then return finish(context.missing) end
if entries then -- luacheck: ignore 542
elseif ARGV[11] ~= "" then
  entries = seek.direct(q, ARGV[11], from, count, hint)
  if not entries then
    search.load()
    entries, place, code = search.look(q, ARGV[11], from, count, hint, true,
      ARGV[8] == "" and waiters.seen(q, waiter, ARGV[10]))
    if code then return finish(code) end
  end
elseif hint and (cursor ~= "" or count == 1 and not turns) and redis.call("ZSCORE", q.a, hint) then
  entries = position.read(q, { hint })
elseif from == "end" then
  entries = {}
elseif cursor == "" and turns then
  entries = group_lock.take(q, count)
else
  entries, ids, recs = seek.available(q, from, count, mode ~= "take" and not queue.has(q, "x"), read)
end

if t and #entries > tx.most - t.count then return finish(status.TRANSACTION_TOO_LARGE) end -- of a group all come

if not ids and #entries == 0 then
  if ARGV[9] == "" and cursor == "U" and ARGV[10] == "nowait" and not place then return finish(status.MESSAGE_NOT_FOUND) end
  local ticket = ARGV[10]
  if waiters.leaving(ticket) then
    if not place then waiters.drop(q, waiter, ARGV[11]) end
  elseif ARGV[9] ~= "" then
    ticket = waiters.wait(q, waiter, ticket, ARGV[11], from)
  end
  reply = { place and status.CONTINUE or status.WAITING, "", 0, ticket, due.next(q), #lost }
  for n = 1, #lost do reply[#reply + 1] = lost[n] end
  reply[#reply + 1] = place
  return finish(reply)
end

-- apply ------------------------------------------------------------------------------------------
if not recs then ids = seek.fit(q, entries) end
if mode == "take" and not position.may_leave(q, entries, "receive") then return finish(context.missing) end
if ARGV[9] ~= "" then waiters.drop(q, waiter, ARGV[11]) end
context.mark_changed()
local kind, owner, fence, deadline = "", "", "", ""
if mode == "lock" then
  kind, owner = "L", ARGV[1]
  fence, deadline = string.format("%d", context.history), string.format("%d", context.now + ARGV[7])
elseif t then
  kind, owner, fence, deadline = "R", t.id, t.fence, t.deadline
end
reply = { status.OK, "", 0, fence, deadline, context.now, #lost, nil, nil, nil }
for n = 1, #lost do reply[n + 7] = lost[n] end
local upto = #reply
if recs then
  position.grant(q, ids, recs, kind, owner, fence, deadline)
  message.plain(reply, ids, recs)
else
  if mode ~= "take" then position.lock(q, entries, kind, owner, fence, deadline) end
  message.all(q, reply, entries)
end
if mode == "take" then position.delete(q, entries, "receive") end
if ARGV[11] ~= "" then waiters.spare(q, ids) end
if mode == "take" then return finish(reply) end
if t then tx.add(t, q, "R", ids) end
return finish(reply, upto, table.concat(ids, ","))
