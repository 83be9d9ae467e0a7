--- require "core/context"
--- require "core/message_state"
--- require "core/position"
--- require lazy "core/release"
--- require lazy "features/features"
--- require "core/store"
--- require "core/timers"
--- require lazy "transactions/tx"
--- used by core/timers
-- Serves leases and timers that core/timers has found to be due. Both decide first, and write nothing if context.missing names
-- queues that KEYS must bring.
local lapse = {}

-- Ends these locks, whose lease is over; those of a transaction that was renewed are extended. If a transaction was not renewed,
-- its record is deleted here, and each queue that it touched gives its messages back in the next call on that queue.
function lapse.locks(q, ids)
  release.load()
  local plan = lapse.plan(q, ids)
  if not (release.plan(q, plan.others) and release.plan(q, plan.received)) then return end
  for _, transaction in ipairs(plan.ended) do tx.forget(transaction) end
  for _, e in ipairs(plan.extended) do store.extend(q, e.lid, e.deadline) end
  release.unlock(q, plan.others, false)
  release.unlock(q, plan.received, true)
  position.delete(q, plan.sent, "aborted") -- leaves no copies, so no queue has to be at hand
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
  local entries, leases = position.read(q, ids), {}
  tx.load()
  for n = 1, #entries do
    local e = entries[n]
    local owner, fence, lease = e.st.owner, e.st.fence, nil
    e.lapsed = true
    if not message_state.is_reader_lock(e.st) then
      local known = owner .. " " .. fence
      if leases[known] == nil then
        -- A transaction with this id and another fence was begun later.
        local found = tx.find(owner)
        leases[known] = found and found.fence == fence and found or false
        if leases[known] and not found.is_open then plan.ended[#plan.ended + 1] = found end
      end
      lease = leases[known]
    end
    local list = message_state.is_sent(e.st) and plan.sent or message_state.is_received(e.st) and plan.received
      or plan.others
    if lease and lease.is_open then
      list, e.deadline = plan.extended, lease.deadline
    end
    list[#list + 1] = e
  end
  return plan
end

-- Serves these members of q.timers, at most timers.most: each feature serves its own (features.list). The window of a dedup key
-- has no hook: its timer is only removed.
function lapse.timers(q, members)
  features.load()
  local ids, served = lapse.by_letter(members), { nil }
  for n = 1, #features.list do
    local feature = features.list[n]
    for k = 1, #(feature.timers or "") do
      local letter = timers.letters[feature.timers[k]]
      if ids[letter] then
        local hooks = features.hooks(feature)
        served[#served + 1] = { hooks = hooks, letter = letter, entries = hooks.plan_due(q, ids[letter], letter) }
      end
    end
  end
  if context.missing then return end
  redis.call("ZREM", q.timers, unpack(members))
  context.mark_changed()
  for n = 1, #served do served[n].hooks.due(q, served[n].entries, served[n].letter) end
end

-- Returns the ids of these timers as lists, by the letter of the timer. Of a message that expires the end of its delay does not
-- matter any more.
function lapse.by_letter(members)
  local ids, expired, letters = {}, {}, timers.letters
  for n = 1, #members do
    if string.sub(members[n], 1, 1) == letters.expiry then expired[string.sub(members[n], 2)] = true end
  end
  for n = 1, #members do
    local letter, id = string.sub(members[n], 1, 1), string.sub(members[n], 2)
    if letter ~= letters.delay or not expired[id] then
      ids[letter] = ids[letter] or { nil }
      ids[letter][#ids[letter] + 1] = id
    end
  end
  return ids
end
