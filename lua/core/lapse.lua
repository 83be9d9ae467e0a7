--- require "core/context"
--- require lazy "core/message_state"
--- require "core/position"
--- require "core/removal"
--- require lazy "core/release"
--- require lazy "features/features"
--- require "core/store"
--- require "core/timers"
--- require lazy "transactions/tx"
--- used by core/timers
-- Serves leases and timers that core/timers has found to be due. Both functions decide first, and write nothing if context.missing
-- names queues that KEYS must bring: then the client makes the call again. They return nothing.
--
-- Change together with: core/timers says what a new kind of timer takes, and core/message_state what a new kind of lock does.
-- transactions/tx_parts and transactions/commit abort a transaction whose lease is not over, and must leave the same behind. Tests:
-- tests/msmq/test_due.py, test_ends.py and, for retry policies, test_attempts.py.
local lapse = {}

-- Ends these locks, whose lease is over; those of a transaction that was renewed are extended. If a transaction was not renewed,
-- its record is deleted here, and each queue that it touched gives its messages back in the next call on that queue.
function lapse.locks(q, ids)
  local plan = lapse.plan(q, ids)
  -- What was sent leaves nothing behind, so its removal needs no plan (core/removal).
  if not (release.plan(q, plan.others) and release.plan(q, plan.received)) then return end -- the call is repeated
  for _, transaction in ipairs(plan.ended) do tx.forget(transaction) end
  if plan.extended[1] then context.mark_changed() end -- tx.forget, release.unlock and removal.delete do that themselves
  for _, entry in ipairs(plan.extended) do store.extend(q, entry.id, entry.deadline) end
  release.unlock(q, plan.others)
  release.unlock(q, plan.received, true)
  removal.delete(q, plan.sent, "aborted")
end

-- Decides what becomes of these locks. Returns a table with lists of entries, and of transactions (transactions/tx):
--
--   extended  their transaction was renewed until `deadline`, a field of the entry
--   received  they were received in a transaction: an abort is counted for them
--   sent      they were sent in a transaction: they are deleted
--   others    locks of readers, and messages that a transaction was to move away
--   ended     the transactions whose lease is over
function lapse.plan(q, ids)
  local plan = { extended = {}, received = {}, sent = {}, others = {}, ended = {} }
  local entries, found = position.read(q, ids), {}
  for n = 1, #entries do
    local entry = entries[n]
    local list = entry.state and lapse.list_for(plan, entry, found) -- the doctor reports a lock without a state
    entry.lapsed = true -- features/retry_policy, features/trail
    if list then list[#list + 1] = entry end
  end
  return plan
end

-- Returns the list of the plan that an entry belongs to. `found`: of lapse.transaction.
function lapse.list_for(plan, entry, found)
  local state = entry.state
  local transaction = not message_state.is_reader_lock(state) and lapse.transaction(state, found, plan.ended)
  if transaction and transaction.is_open then
    entry.deadline = transaction.deadline
    return plan.extended
  end
  if message_state.is_sent(state) then return plan.sent end
  return message_state.is_received(state) and plan.received or plan.others
end

-- Returns the transaction that holds a message with this state; false if it is gone. `found`: those that were looked for
-- before. Appends to `ended` each that it finds for the first time, if its lease is over.
function lapse.transaction(state, found, ended)
  local name = state.owner .. " " .. state.fence
  if found[name] == nil then
    local transaction = tx.find(state.owner)
    -- One with this id and another fence was begun later.
    found[name] = transaction and transaction.fence == state.fence and transaction or false
    if found[name] and not transaction.is_open then ended[#ended + 1] = transaction end
  end
  return found[name]
end

-- Serves these members of q.timers, at most timers.most: each feature serves its own (features.list). The window of a dedup key
-- has no hook: its timer is only removed.
function lapse.timers(q, members)
  local ids, served = lapse.by_letter(members), { nil }
  for n = 1, #features.list do
    local feature = features.list[n]
    for k = 1, #(feature.timers or "") do
      local letter = timers.letters[feature.timers[k]]
      if ids[letter] then
        local hooks = feature.module.hooks
        served[#served + 1] = { hooks = hooks, letter = letter, entries = hooks.plan_due(q, ids[letter], letter) }
      end
    end
  end
  if context.missing then return end
  redis.call("ZREM", q.timers, unpack(members))
  context.mark_changed()
  for n = 1, #served do served[n].hooks.due(q, served[n].entries, served[n].letter) end
end

-- Returns the ids of these timers as lists, by the letter of the timer. If one that deletes its message is due, expiry or else
-- trash, the other timers of the message are left out: what is served twice would be counted out twice.
function lapse.by_letter(members)
  local ids, ended, letters = {}, {}, timers.letters -- ended: by id, the letter of the timer that deletes the message
  for n = 1, #members do
    local letter, id = string.sub(members[n], 1, 1), string.sub(members[n], 2)
    if letter == letters.expiry or letter == letters.trash and not ended[id] then ended[id] = letter end
  end
  for n = 1, #members do
    local letter, id = string.sub(members[n], 1, 1), string.sub(members[n], 2)
    if not ended[id] or ended[id] == letter then
      ids[letter] = ids[letter] or { nil }
      ids[letter][#ids[letter] + 1] = id
    end
  end
  return ids
end
