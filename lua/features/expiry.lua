--- require "core/chunked"
--- require "core/context"
--- require "core/position"
--- require "core/removal"
--- require "core/queue"
--- require "core/record"
--- require "core/timers"
--- used by features/features
-- Messages that expire: the sender gives them a time to be received in, in ms (field time_to_be_received of the head).
-- While such a message is available, q.timers has its timer `expiry`, due when that time ends. A locked message does
-- not expire: its timer is removed with the lock, and set again, or found to be over, when it comes back. It is counted and
-- traced with MSMQ's reason "receive_timeout". The functions are hooks: features/features says
-- when they are called, and what `batch` and `places` are.
local expiry = {}

-- Sets the timers of messages that become available. Those that have expired get the fate "expired", and are deleted by
-- features.arrive. The script has planned what they leave behind (features.plan, trace.expiring), for which record.is_expired
-- says the same as the condition here.
function expiry.arrive(q, batch, places)
  local elements, soonest = { nil, nil }, nil
  for k = 1, #places do
    local n = places[k]
    local at = record.expires(batch.records[n])
    if at <= context.now then
      batch.fates[n] = "expired"
    else
      elements[#elements + 1] = string.format("%d", at)
      elements[#elements + 1] = timers.letters.expiry .. batch.ids[n]
      if not soonest or at < soonest then soonest = at end
    end
  end
  if soonest then
    chunked.scores(q.timers, elements)
    queue.set_timer(q, soonest)
  end
end

-- Removes the timers of messages that leave.
function expiry.leave(q, batch, places)
  timers.remove(q, timers.letters.expiry, batch, places)
end

-- Returns the messages of timers that are due, and plans their traces.
function expiry.plan_due(q, ids)
  local entries = position.read(q, ids)
  removal.plan(q, entries, "receive_timeout")
  return entries
end

-- Deletes them.
function expiry.due(q, entries)
  removal.delete(q, entries, "receive_timeout")
end

expiry.hooks = { arrive = expiry.arrive, leave = expiry.leave, plan_due = expiry.plan_due, due = expiry.due }
