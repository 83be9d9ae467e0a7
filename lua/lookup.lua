-- Read one particular message: peek, take, lock, or receive in a transaction, by lookup id. Never waits.
-- MS-MQDMPR 3.1.7.1.13 Read Message By Lookup Identifier, 3.1.7.3.3 Seek Available Message Position With Id
--
-- CALLERS lookup in mqredis/commands/read.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] generation  of the queue behind the handle
-- ARGV[4] mode  peek | take | lock | tx
-- ARGV[5] seek  first | previous | current | next | last
-- ARGV[6] id  the lookup id; its value is ignored for first and last. current: several with commas, all or none
-- ARGV[7] owner  id of the transaction, "" otherwise
-- ARGV[8] grant  fence of the transaction; lease of the lock in ms; "" otherwise
-- ARGV[9] allow_peek  "1": stay visible to peeks while locked
-- ARGV[10] held  fence of a lock on the message that this call takes over, "" none
-- RETURNS OK fence, deadline in ms, now in ms, 0, then messages (core/message)
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS MESSAGE_NOT_FOUND
-- RETURNS TRANSACTION_USAGE
-- RETURNS TRANSACTION_SEQUENCE
-- RETURNS TRANSACTION_TOO_LARGE
-- RETURNS GET_INHIBITED
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/message_state"
--- require "core/queue"
--- require "core/record"
--- require "core/timers"
--- require "core/seek"
--- require "core/position"
--- require "core/message"
--- require lazy "transactions/tx"
--- require lazy "claims/claim_pages"
--- require "waiting/waiters"
--- require lazy "features/group_lock"
local generation, mode, action, lookup_ids, owner, grant = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local visible, held = ARGV[9] == "1" and "V" or "", ARGV[10]
local reply = context.open()
if reply then return reply end
local q = queue.open(1, 2)
if context.again then return message.again(q) end
if not q or q.generation ~= generation then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.open_parent(q, 2)
timers.serve(q)

if context.missing then return waiters.finish(q, context.missing) end

-- decide -----------------------------------------------------------------------------------------
local t, code
if q.options.get_inhibited then return waiters.finish(q, status.GET_INHIBITED) end
if mode == "tx" then
  if not q.options.transactional then return waiters.finish(q, status.TRANSACTION_USAGE) end
  tx.load()
  t, code = tx.open(owner, grant)
  if not t then return waiters.finish(q, code) end
  if t.count >= tx.most then return waiters.finish(q, status.TRANSACTION_TOO_LARGE) end
end

-- Is the message in a packed page of a claim?
local function packed(lid)
  local notes = queue.notes(q)
  notes.pages = notes.pages or redis.call("HGET", q.key, "pages") or ""
  if notes.pages == "" then return false end
  claim_pages.load()
  return claim_pages.find(q, lid)
end

-- One entry, or nothing and the status that says why.
local function at(lid)
  if action == "first" or action == "last" then
    if mode == "peek" then return seek.visible(q, "", action == "last") end
    return action == "first" and seek.first(q, "") or action == "last" and seek.back(q, "") or nil
  end
  local anchor = position.read(q, { lid })[1]
  if not anchor then return end
  if action == "previous" then
    return mode == "peek" and seek.visible(q, lid, true) or mode ~= "peek" and seek.back(q, lid) or nil
  elseif action == "next" then
    return mode == "peek" and seek.visible(q, lid, false) or mode ~= "peek" and seek.first(q, lid) or nil
  end
  local st = anchor.st
  -- A message without a state may have been claimed by a pipeline; else a plain one is available.
  if not st and packed(lid) then return nil, mode == "peek" and status.TRANSACTION_USAGE or nil end
  local plain = not st and record.free[string.byte(anchor.rec, 14)]
  if plain or redis.call("ZSCORE", q.available, lid) then return not seek.expired(anchor) and anchor or nil end
  if held ~= "" and st and st.fence == held and message_state.is_reader_lock(st)
    and not message_state.is_purged(st) then
    anchor.held = true
    return anchor
  end
  if mode == "peek" and st and message_state.is_locked(st) and not message_state.is_purged(st) then
    if message_state.is_visible(st) then return anchor end
    return nil, status.TRANSACTION_USAGE
  end
end

local turns, entries, ids = mode ~= "peek" and q.locks_groups, {}, {}
if turns then group_lock.load() end
for lid in string.gmatch(lookup_ids, "[^,]+") do
  local e, why = at(lid)
  if not e or turns and not e.held and group_lock.busy(q, e.rec) then
    return waiters.finish(q, why or status.MESSAGE_NOT_FOUND)
  end
  entries[#entries + 1], ids[#ids + 1] = e, e.lid
end
if #entries == 0 then return waiters.finish(q, status.MESSAGE_NOT_FOUND) end
if t and t.count + #entries > tx.most then return waiters.finish(q, status.TRANSACTION_TOO_LARGE) end
if mode == "take" and not position.may_leave(q, entries, "receive") then return waiters.finish(q, context.missing) end

-- apply ------------------------------------------------------------------------------------------
reply = { status.OK, "", 0, "", "", context.now, 0 }
for n = 1, #entries do
  -- The delivery that began with the lock goes on.
  if mode ~= "peek" and entries[n].held then entries[n].st.deliveries = entries[n].st.deliveries - 1 end
end
if mode == "lock" then
  context.mark_changed()
  reply[4] = string.format("%.0f", context.history)
  reply[5] = string.format("%.0f", context.now + tonumber(grant))
  position.lock_entries(q, entries, message_state.by_reader .. visible, ARGV[1], reply[4], reply[5])
elseif t then
  reply[4], reply[5] = t.fence, t.deadline
  position.lock_entries(q, entries, message_state.received .. visible, t.id, t.fence, t.deadline)
  tx.add(t, q, tx.received, ids)
end
message.add_entries(q, reply, entries, (mode == "lock" or t) and message_state.locked_once or "")
if mode == "take" then position.delete(q, entries, "receive") end
if mode == "lock" or t then return waiters.finish(q, reply, 7, table.concat(ids, ",")) end
return waiters.finish(q, reply)
