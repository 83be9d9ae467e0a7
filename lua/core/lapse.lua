--- require "core/context"
--- require "core/message_state"
--- require "core/position"
--- require lazy "core/release"
--- require lazy "features/features"
--- require "core/store"
--- require "core/timers"
--- require lazy "transactions/tx"
--- used by core/timers
-- Serves leases and timers that core/timers has found to be due.
local lapse = {}

-- Ends these locks, whose lease is over. If their transaction was renewed, they are extended. If not, the transaction is
-- aborted as a whole: tx.lease deletes its record, and each queue that it touched gives its messages back in the next call on
-- that queue. Both are written before it is known whether all queues are at hand: a call that is repeated with more keys
-- writes the same again.
function lapse.locks(q, ids)
  release.load()
  tx.load()
  -- others: locks of readers, and messages that a transaction was to move away: no abort is counted for them.
  local others, received, sent = {}, {}, {}
  local entries = position.read(q, ids)
  for n = 1, #entries do
    local e = entries[n]
    local new_deadline = not message_state.is_reader_lock(e.st) and tx.lease(e.st.owner, e.st.fence)
    if new_deadline then
      store.extend(q, e.lid, new_deadline)
    elseif message_state.is_sent(e.st) then
      sent[#sent + 1] = e
    elseif message_state.is_received(e.st) then
      received[#received + 1] = e
    else
      others[#others + 1] = e
    end
  end
  for n = 1, #entries do entries[n].lapsed = true end
  if not (release.plan(q, others) and release.plan(q, received)) then return end
  release.unlock(q, others, false)
  release.unlock(q, received, true)
  position.delete(q, sent, "aborted") -- leaves no copies, so no queue has to be at hand
end

-- These timers, at most timers.most, have expired. Each feature serves its own (features.list). The window of a dedup
-- key has no hook: its timer is only removed.
function lapse.timers(q, members)
  features.load()
  local ids, expired, letters = {}, {}, timers.letters
  for n = 1, #members do
    if string.sub(members[n], 1, 1) == letters.expiry then expired[string.sub(members[n], 2)] = true end
  end
  for n = 1, #members do
    local letter, id = string.sub(members[n], 1, 1), string.sub(members[n], 2)
    -- If a message expires in the same call, its delay no longer matters.
    if letter ~= letters.delay or not expired[id] then
      ids[letter] = ids[letter] or { nil }
      ids[letter][#ids[letter] + 1] = id
    end
  end
  local due = { nil }
  for n = 1, #features.list do
    local feature = features.list[n]
    for k = 1, #(feature.timers or "") do
      local letter = letters[feature.timers[k]]
      if ids[letter] then
        local hooks = features.hooks(feature)
        due[#due + 1] = { hooks = hooks, letter = letter, entries = hooks.plan_due(q, ids[letter], letter) }
      end
    end
  end
  if context.missing then return end
  redis.call("ZREM", q.timers, unpack(members))
  context.mark_changed()
  for n = 1, #due do due[n].hooks.due(q, due[n].entries, due[n].letter) end
end
