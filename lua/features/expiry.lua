--- require "core/chunked"
--- require "core/context"
--- require "core/position"
--- require "core/queue"
--- require "core/record"
--- require "core/timers"
--- used by features/features
-- Messages that expire (key e of the head: milliseconds to be received in): timers "e"id of available messages.
local expiry = {}

function expiry.arrive(q, batch, places)
  local elements, soonest = { nil, nil }, nil
  for k = 1, #places do
    local n = places[k]
    local at = record.expires(batch.records[n])
    if at <= context.now then
      batch.fates[n] = "expired"
    else
      elements[#elements + 1] = string.format("%d", at)
      elements[#elements + 1] = "e" .. batch.ids[n]
      if not soonest or at < soonest then soonest = at end
    end
  end
  if soonest then
    chunked.scores(q.timers, elements)
    queue.set_timer(q, soonest)
  end
end

function expiry.leave(q, batch, places)
  timers.remove(q, "e", batch, places)
end

function expiry.plan_due(q, ids)
  local entries = position.read(q, ids)
  position.may_leave(q, entries, "receive_timeout")
  return entries
end

function expiry.due(q, entries)
  position.delete(q, entries, "receive_timeout")
end

expiry.hooks = { arrive = expiry.arrive, leave = expiry.leave, plan_due = expiry.plan_due, due = expiry.due }
