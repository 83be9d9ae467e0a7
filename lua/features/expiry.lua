--- require "core/chunked"
--- require "core/context"
--- require "core/position"
--- require "core/removal"
--- require "core/queue"
--- require lazy "core/record"
--- require "core/timers"
--- used by features/copy, features/features
-- Messages that expire: the sender gives them a time to be received in, in ms (field time_to_be_received of the head).
-- While such a message is available or delayed, q.timers has its timer `expiry`, due when that time ends. A locked message does not
-- expire: its timer is removed with the lock, and set again, or found to be over, when it comes back. A message that has expired is
-- deleted for the reason "receive_timeout" (core/removal).
--
-- The functions are hooks: features/features says when they are called, and what `batch` and `places` are; core/lapse calls
-- plan_due and due. The moment at which a message expires is computed in record.expires (core/record) alone.
--
-- Change together with: readers pass over what has expired and is not deleted yet (core/seek, matching/search); the check `timers`
-- of the doctor (mqredis/operations/doctor/checks/messages.py) computes the timers again. Tests: tests/msmq/test_delivery.py,
-- test_due.py, tests/property/test_moment.py.
local expiry = {}

-- Sets the timers of messages that become available. Those that have expired get the fate "expired", and are deleted by
-- features.arrive. The script has planned what they leave behind (features.plan, trace.expiring); record.is_expired, by which it
-- did so, must say the same as the condition here.
function expiry.arrive(q, batch, places)
  local scores, soonest = { nil, nil }, nil -- scores: ms, member of q.timers, ms, member, ...
  for k = 1, #places do
    local place = places[k]
    local expires_at = record.expires(batch.records[place])
    if expires_at <= context.now then
      batch.fates[place] = "expired"
    else
      scores[#scores + 1] = string.format("%d", expires_at)
      scores[#scores + 1] = timers.letters.expiry .. batch.ids[place]
      soonest = math.min(soonest or expires_at, expires_at)
    end
  end
  if soonest then
    chunked.scores(q.timers, scores)
    queue.set_timer(q, soonest)
  end
end

-- Removes the timers of messages that are locked or leave.
function expiry.leave(q, batch, places)
  timers.remove(q, timers.letters.expiry, batch, places)
end

-- Returns the messages of timers that are due as entries, and plans their deletion.
function expiry.plan_due(q, ids)
  local entries = position.read(q, ids)
  removal.plan(q, entries, "receive_timeout")
  return entries
end

-- Deletes the messages that expiry.plan_due has returned.
function expiry.due(q, entries)
  removal.delete(q, entries, "receive_timeout")
end

-- Deletes a page of the messages of q that have expired, and that leave nothing behind: for features/copy, which has no time left
-- to plan anything.
function expiry.drop(q)
  local members, ids = redis.call("ZRANGEBYSCORE", q.timers, "-inf", context.now_text, "LIMIT", 0, timers.most), {}
  for n = 1, #members do
    if string.sub(members[n], 1, 1) == timers.letters.expiry then ids[#ids + 1] = string.sub(members[n], 2) end
  end
  local entries, gone = position.read(q, ids), {}
  for n = 1, #entries do
    if not removal.traced(q, { entries[n] }, "receive_timeout")[1] then gone[#gone + 1] = entries[n] end
  end
  removal.delete(q, gone, "receive_timeout")
end

expiry.hooks = { arrive = expiry.arrive, leave = expiry.leave, plan_due = expiry.plan_due, due = expiry.due }
