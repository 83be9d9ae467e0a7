-- Read one particular message: peek, take, lock, or receive in a transaction, by lookup id. Never waits.
-- MS-MQDMPR 3.1.7.1.13 Read Message By Lookup Identifier, 3.1.7.3.3 Seek Available Message Position With Id
--
-- CALLERS lookup in mqredis/commands/read.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] generation  of the queue behind the handle
-- ARGV[4] mode  peek | take | lock | tx
-- ARGV[5] which  first | last: of the queue; previous | next: beside the message with this id; current: with this id;
--   before | behind: beside this id, where an earlier call stopped
-- ARGV[6] ids  lookup id; not used for first and last; for current there may be several, with commas: all of them are read, or none
-- ARGV[7] owner  id of the transaction, "" otherwise
-- ARGV[8] grant  fence of the transaction, "+lease_ms" to begin it here; lease of the lock in ms; "" otherwise
-- ARGV[9] allow_peek  "1": stay visible to peeks while locked
-- ARGV[10] own_fence  fence of a lock that the caller has on the messages and that this call takes over, "" none
-- ARGV[11] filter  which messages the handle sees, "" all (matching/filter)
-- RETURNS OK fence, deadline in ms, now in ms, 0, then messages (core/message)
-- RETURNS CONTINUE "", -1, 0, then the id beside which the search goes on
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS MESSAGE_NOT_FOUND
-- RETURNS TRANSACTION_USAGE
-- RETURNS TRANSACTION_SEQUENCE
-- RETURNS TRANSACTION_TOO_LARGE
-- RETURNS GET_INHIBITED
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require lazy "core/message_state"
--- require "core/queue"
--- require "core/timers"
--- require "core/seek"
--- require "core/position"
--- require "core/removal"
--- require "core/message"
--- require lazy "transactions/tx"
--- require lazy "claims/claim_pages"
--- require "waiting/waiters"
--- require lazy "features/group_lock"
--- require lazy "matching/filter"
-- Change together with: receive.lua, whose reply mqredis/commands/read.py parses with the same function, and from whose reply
-- mqredis/operations/interruption.py takes the fence in the same way. Tests: tests/conformance/test_lookup.py;
-- tests/matching/test_browse.py, for locks that are taken over.
local generation, mode, which, lookup_ids, owner, grant = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local allow_peek, own_fence, filter_text = ARGV[9] == "1", ARGV[10], ARGV[11]
local reply = context.open()
if reply then return reply end
local q = queue.open(1)
if context.again then return message.again(q) end -- a repeated call
if not q or q.generation ~= generation then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.open_parent(q)
timers.serve(q)

local function finish(...) return waiters.finish(q, ...) end
if context.missing then return finish(context.missing) end

-- decide -----------------------------------------------------------------------------------------
local transaction, refusal
if q.options.get_inhibited then return finish({ status.GET_INHIBITED }) end
if mode == "tx" then
  transaction, refusal = tx.enter(q, owner, grant)
  if refusal then return finish({ refusal }) end
end

local criteria
if filter_text ~= "" then criteria = filter.parse(filter_text) end
local skips_busy = mode ~= "peek" and q.locks_groups

-- May this call read the message of this entry? Not if the filter excludes it, nor may it take one of a busy group.
local function admits(entry)
  if criteria and not filter.test(criteria, entry.id, entry.rec) then return false end
  return not skips_busy or not group_lock.busy(q, entry.rec)
end

-- Returns the nearest entry before or behind an id, "" for an end of the queue: an available one, for a peek without a filter also
-- a locked one that is visible. nil if there is none.
local function beside(id, backward)
  if mode == "peek" and not criteria then return seek.visible(q, id, backward) end
  if backward then return seek.back(q, id) end
  return seek.first(q, id)
end

local most_looks = 1000 -- messages that a call looks at

-- Returns the nearest entry before or behind an id that this call may read. Else nil, and, if the search is unfinished, the id
-- beside which the next call goes on.
local function nearest(id, backward)
  for _ = 1, most_looks do
    local entry = beside(id, backward)
    if not entry or admits(entry) then return entry end
    id = entry.id
    if criteria and filter.out_of_time(criteria) then break end
  end
  return nil, id
end

-- Returns the entry with this id, if this call may read it: available and admitted; or, without a filter, under the caller's lock
-- (its field taken_over is set then), or for a peek locked and visible. Else nil, and a status if that is not MESSAGE_NOT_FOUND.
local function current(id)
  local entry = seek.current(q, id)
  if entry then return admits(entry) and entry end
  if criteria then return end -- a handle with a selector sees available messages only
  entry = position.read(q, { id })[1]
  if not entry then return end
  local state = entry.state
  if not state then
    -- It is delayed or expired, or locked in a packed page of a claim.
    return nil, mode == "peek" and claim_pages.find(q, id) and status.TRANSACTION_USAGE or nil
  end
  if message_state.is_purged(state) then return end
  if own_fence ~= "" and state.fence == own_fence and message_state.is_reader_lock(state) then
    entry.taken_over = true
    return entry
  end
  if mode ~= "peek" or not message_state.is_locked(state) then return end
  if message_state.is_visible(state) then return entry end
  return nil, status.TRANSACTION_USAGE
end

local entries, place = { nil }, nil -- place: the id beside which an unfinished search goes on
if which == "first" or which == "last" then
  entries[1], place = nearest("", which == "last")
elseif which == "before" or which == "behind" then
  entries[1], place = nearest(lookup_ids, which == "before")
elseif which == "current" then
  for id in string.gmatch(lookup_ids, "[^,]+") do
    local entry, code = current(id)
    if not entry then return finish({ code or status.MESSAGE_NOT_FOUND }) end
    entries[#entries + 1] = entry
  end
elseif redis.call("HEXISTS", q.records, lookup_ids) == 1 then
  entries[1], place = nearest(lookup_ids, which == "previous")
end
if place then return finish(context.reply(status.CONTINUE, "", -1, 0, place)) end
if #entries == 0 then return finish({ status.MESSAGE_NOT_FOUND }) end
if transaction and transaction.count + #entries > tx.most then return finish({ status.TRANSACTION_TOO_LARGE }) end
if mode == "take" and not removal.plan(q, entries, "receive") then return finish(context.missing) end

-- apply ------------------------------------------------------------------------------------------
local ids = { nil }
for n = 1, #entries do ids[n] = entries[n].id end

-- Adds to the deliveries of the messages that this call takes over from a lock of the caller. A browser sends its fence (`_under`
-- in mqredis/operations/browser.py) with the modes peek, take and tx; after a peek its lock stays. A lock in a transaction
-- overwrites state and deadline of the old lock; its index entry, if it was visible, stays until the new lock ends.
local function add_deliveries(count)
  for n = 1, #entries do
    local state = entries[n].state
    if entries[n].taken_over then state.deliveries = state.deliveries + count end
  end
end
-- The delivery that began with the lock goes on: a lock in a transaction counts it anew (position.lock_states), and for a message
-- that is taken the client does (`taken` of Context.messages).
if mode ~= "peek" then add_deliveries(-1) end
local flag = allow_peek and message_state.visible or ""
local lock
if mode == "lock" then
  context.mark_changed()
  lock = position.reader_lock(message_state.by_reader .. flag, ARGV[1], grant)
elseif transaction then
  lock = tx.lock(transaction, message_state.received .. flag)
end
if lock then position.lock_entries(q, entries, lock) end
if transaction then tx.add(transaction, q, tx.received, ids) end
reply = message.found(lock and lock.fence or "", lock and lock.deadline or "", {})
local upto = #reply -- the messages behind it are left out of the reply that is kept, and read again (context.close)
message.add_entries(q, reply, entries, lock and message_state.locked_once or "")
if mode == "take" then
  add_deliveries(1) -- a copy of a message that was locked shows the deliveries as they are
  removal.delete(q, entries, "receive")
end
if lock then return finish(reply, upto, table.concat(ids, ",")) end
return finish(reply)
