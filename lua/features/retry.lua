--- require "core/context"
--- require "core/queue"
--- require "core/timers"
--- require "core/position"
--- require "core/removal"
--- require lazy "admin/rewrite"
--- require lazy "features/failure"
--- require "features/retry_policy"
--- require lazy "features/trace"
--- require lazy "core/transfer"
--- require "core/store"
--- used by admin/rewrite, core/release, features/features, features/trash
-- Carries out what the retry policy of a queue decides (features/retry_policy), and serves the timers that come of it.
--
-- core/release calls retry.plan before a script's first write, which asks for the queues that the decision needs, and then
-- retry.apply, which decides again, with these queues at hand, and writes. core/lapse calls the hooks plan_due and due for timers.
-- `q` and `entry` as in features/retry_policy.
--
-- A message in a subqueue of the policy has one of these timers in q.timers of the parent (letters: core/timers):
--
--   rest            it is in ;retry; then it comes back to the queue
--   rest_isolated   it is in ;retry; then it goes to ;lapsed
--   isolated        it is in ;lapsed; if no worker took it from there within `patience` ms it comes back to the queue
--   poison          it is in ;poison; then it is deleted
--
-- Change together with: a new fate is described and decided in features/retry_policy, asks for its queues in retry.find_queues and
-- is carried out in retry.apply. A new subqueue is known to mqredis/keys.py (RESTING, _KEPT_SUBQUEUES, has_own_quota),
-- overview.lua, stats.lua, message_list.lua and release.outcome. A new timer stands in core/timers, in retry.timer_letters and in
-- retry.renew_timers. An event is one of TrailEvent (features/trail). Tests: as of features/retry_policy.
--
-- A reader may have taken the message from the subqueue before the timer is due: then the timer does nothing. A message
-- that comes back to ;poison without its timer gets another, so that it does not stay for ever.
--
-- patience  ms that a message waits in ;lapsed for a worker
-- reasons   by fate, why a message is deleted (core/removal). That of a dead letter is named "poison", too; the fate "poison" is a
--           move and has none
-- events    by fate, what its trail says (features/trail)
local retry = {
  patience = 600000,
  reasons = { dead_letter = "poison", reject = "receive_rejected", drop = "dropped" },
  events = { reject = "rejected", drop = "dropped" },
}

-- The fate of released messages -----------------------------------------------------------------------------------------

-- Asks for the queues that the fates of these entries need (context.missing).
function retry.plan(q, entries)
  for n = 1, #entries do retry.find_queues(q, entries[n], retry_policy.decide(q, entries[n])) end
end

-- Asks for the queues that this fate of an entry needs. Where the queue that it goes to has a quota, also for those of the
-- fate that it has if that queue is full (retry_policy.final).
function retry.find_queues(q, entry, fate)
  if fate == "dead_letter" or fate == "reject" then
    trace.plan(q, { entry }, retry.reasons[fate])
    local dead_letter_queue = fate == "dead_letter" and retry_policy.dead_letter_queue(q, entry)
    if retry_policy.has_quota(dead_letter_queue) then retry.find_queues(q, entry, "poison") end
  elseif fate == "poison" then
    if retry_policy.has_quota(retry_policy.subqueue(q, "poison")) then retry.find_queues(q, entry, "full") end
  elseif fate == "retry" or fate == "full" then
    retry_policy.subqueue(q, "retry")
  elseif fate == "lapsed" then
    retry_policy.subqueue(q, "retry")
    retry_policy.subqueue(q, "lapsed")
  end
end

-- Decides the fates of these entries, which are locked no more and not available yet, and carries them out. entry.retried:
-- the entry counts in n_retried, unless it is deleted or goes to ;poison.
function retry.apply(q, entries)
  local retried = 0
  for n = 1, #entries do
    local entry = entries[n]
    local fate = retry_policy.decide(q, entry)
    local is_deleted = retry.reasons[fate] ~= nil
    if entry.retried and not is_deleted and fate ~= "poison" then retried = retried + 1 end
    if is_deleted then
      retry.delete(q, entry, fate)
    elseif fate == "poison" then
      retry.poison(q, entry)
    elseif fate == "again" then
      position.arrive_entries(q, { entry })
      if queue.is_subqueue(q, "lapsed") then retry.start_patience(q, entry) end
      if queue.is_subqueue(q, "poison") then retry.renew_failed(q, { entry }) end
    elseif fate == "wait" then
      retry.wait(q, entry)
    else
      retry.rest(q, entry, fate)
    end
  end
  if retried > 0 then store.count_event(queue.home(q), "n_retried", retried) end
end

-- Deletes an entry, with the dead letter that its fate leaves behind: dead_letter, reject or drop.
function retry.delete(q, entry, fate)
  entry.event = retry.events[fate]
  failure.report(entry, retry_policy.attempts(entry))
  removal.delete(q, { entry }, retry.reasons[fate])
end

-- Moves an entry to ;poison, with a report of its failure.
function retry.poison(q, entry)
  entry.event = "poisoned"
  failure.report(entry, retry_policy.attempts(entry), "poison")
  transfer.move(q, retry_policy.subqueue(q, "poison"), { entry })
  store.count_event(queue.home(q), "n_poison", 1)
  local kept = retry_policy.read(q).kept
  if kept then retry.set_timer(q, timers.letters.poison, entry, context.now + kept * 1000) end
end

-- Moves an entry to ;retry, where it rests; its fate is retry, full or lapsed. With the last one it goes on to ;lapsed, at once if
-- it need not rest.
function retry.rest(q, entry, fate)
  local ms, goes_to_lapsed = retry_policy.rest(q, entry, fate), fate == "lapsed"
  entry.report, entry.event = nil, "resting"
  if goes_to_lapsed and ms == 0 then
    transfer.move(q, retry_policy.subqueue(q, "lapsed"), { entry })
    return retry.start_patience(q, entry)
  end
  transfer.move(q, retry_policy.subqueue(q, "retry"), { entry })
  local letter = goes_to_lapsed and timers.letters.rest_isolated or timers.letters.rest
  retry.set_timer(q, letter, entry, context.now + ms)
end

-- Delays an entry in q, a subqueue. If it has failed it stays in ;poison for its time from then on, since its timer does nothing
-- while it is delayed.
function retry.wait(q, entry)
  local due, kept = context.now + entry.rest, queue.is_subqueue(q, "poison") and retry_policy.read(q).kept
  rewrite.apply(q, { entry }, { rewrite.due(entry, due) }, { entry.id })
  if kept and failure.has_report(entry.rec) then retry.set_timer(q, timers.letters.poison, entry, due + kept * 1000) end
end

-- Timers ----------------------------------------------------------------------------------------------------------------

-- The letters of the policy's timers. A message has one of them at most.
retry.timer_letters = { timers.letters.rest, timers.letters.rest_isolated, timers.letters.isolated,
  timers.letters.poison }

-- Sets one of the policy's timers for an entry, due at this moment in ms, in place of any other. `q`: the queue or one of its
-- subqueues; the timer is in the queue.
function retry.set_timer(q, letter, entry, at)
  local home, others = queue.home(q), { nil, nil, nil, nil }
  for n, other in ipairs(retry.timer_letters) do others[n] = other .. entry.id end
  redis.call("ZREM", home.timers, unpack(others))
  redis.call("ZADD", home.timers, string.format("%.0f", at), letter .. entry.id)
  queue.set_arrival(home, at)
end

-- Has the timers of messages in a subqueue name their new lookup ids (admin/rewrite). Those of ;trash have hooks for that
-- (features/trash).
function retry.rename_timers(q, old_ids, new_ids)
  local home = queue.home(q)
  for _, letter in ipairs(retry.timer_letters) do
    for n = 1, #old_ids do
      local at = old_ids[n] ~= new_ids[n] and redis.call("ZSCORE", home.timers, letter .. old_ids[n])
      if at then
        redis.call("ZREM", home.timers, letter .. old_ids[n])
        redis.call("ZADD", home.timers, at, letter .. new_ids[n])
      end
    end
  end
end

-- Sets the timer of an entry in ;lapsed.
function retry.start_patience(q, entry)
  retry.set_timer(q, timers.letters.isolated, entry, context.now + retry.patience)
end

-- Returns the subqueue whose messages have timers with this letter.
function retry.subqueue_of(q, letter)
  local letters = timers.letters
  local name = letter == letters.isolated and "lapsed" or letter == letters.poison and "poison" or "retry"
  return retry_policy.subqueue(q, name)
end

-- Decides for timers with this letter that are due (hook of features/features). `q`: the queue with the policy; `ids`: of the
-- messages. Returns the entries that are still in their subqueue, available.
function retry.plan_due(q, ids, letter)
  local from = retry.subqueue_of(q, letter)
  local entries = from and position.read_available(from, ids) or {}
  if letter == timers.letters.rest_isolated then retry_policy.subqueue(q, "lapsed") end
  trace.expiring(q, entries) -- those that have expired meanwhile are deleted as they arrive
  return entries
end

-- Carries out what the timers with this letter are for. `entries`: those that retry.plan_due returned.
function retry.due(q, entries, letter)
  if #entries == 0 then return end
  local from = retry.subqueue_of(q, letter)
  if letter == timers.letters.poison then return removal.delete(from, entries, "dropped") end
  for n = 1, #entries do entries[n].event = "retried" end
  if letter == timers.letters.rest_isolated then
    transfer.move(from, retry_policy.subqueue(q, "lapsed"), entries)
    for n = 1, #entries do retry.start_patience(q, entries[n]) end
  else
    transfer.move(from, q, entries)
  end
end

-- Sets the timers of entries that are back in q, one of the policy's subqueues, from ;trash (features/trash). Timers go
-- on while a message is in ;trash; a message whose timer was due there gets another, so that it does not stay for ever.
function retry.renew_timers(q, entries)
  local _, name = queue.split_name(queue.name(q))
  local letters, kept = timers.letters, retry_policy.read(q).kept
  if name == "retry" then
    retry.set_missing_timers(q, entries, { letters.rest, letters.rest_isolated }, 0)
  elseif name == "lapsed" then
    retry.set_missing_timers(q, entries, { letters.isolated }, retry.patience)
  elseif name == "poison" and kept then
    retry.set_missing_timers(q, entries, { letters.poison }, kept * 1000)
  end
end

-- Sets the timers of entries that are available again in q, the subqueue ;poison, after a reader had them: as retry.renew_timers,
-- for those that have failed.
function retry.renew_failed(q, entries)
  local failed = { nil }
  for n = 1, #entries do
    if failure.has_report(entries[n].rec) then failed[#failed + 1] = entries[n] end
  end
  retry.renew_timers(q, failed)
end

-- Sets the timers of entries that are available again in q, a subqueue, after a lock that was no attempt.
function retry.renew_released(q, entries)
  if queue.is_subqueue(q, "poison") then
    retry.renew_failed(q, entries)
  elseif queue.is_subqueue(q, "lapsed") then -- from an aborted move, or a claim
    retry.renew_timers(q, entries)
  end
end

-- Sets the timer with the first of these letters, due in so many ms, for entries that have a timer with none of them.
function retry.set_missing_timers(q, entries, letters, ms)
  local home = queue.home(q)
  for _, entry in ipairs(entries) do
    local has_timer = false
    for _, letter in ipairs(letters) do
      has_timer = has_timer or redis.call("ZSCORE", home.timers, letter .. entry.id)
    end
    if not has_timer then retry.set_timer(q, letters[1], entry, context.now + ms) end
  end
end

retry.hooks = { plan_due = retry.plan_due, due = retry.due }
