--- require "core/chunked"
--- require "core/context"
--- require "core/queue"
--- require lazy "core/statistics"
--- require lazy "core/lapse"
--- require lazy "core/locks"
--- used by 37 files: 25 scripts, 4 in admin, 2 in core, 5 in features, waiting/notify
-- Serves the timers of a queue: leases that are over, and what q.timers holds. No process watches them: the next call on the
-- queue serves what is due before its own work, and clients call QueueManager.maintain for queues without calls.
--
-- A member of q.timers is a letter, which says what the timer is for, and the lookup id of a message (of a dedup key: the key);
-- its score is the ms at which it is due.
--
-- Change together with: a new letter is free, and is served by a feature, whose line in features/features names it; lapse.by_letter
-- (core/lapse) tells what comes first if several are due. The doctor has to tell what the rest of the member is, a lookup id or
-- something else: audit.is_policy_timer in admin/audit, `_RESTS` and "k" in mqredis/operations/doctor/checks/policies.py
-- (tests/contract/test_constants.py compares). message_list.lua shows what timers are for. docs/key-layout.md lists the letters.
-- Tests: tests/msmq/test_due.py; tests/property/test_late_timers.py compares calls that come late with a model that serves each
-- timer in time.
--
-- letters  by what a timer is for; the lines of features/features say which feature serves each, but that of a dedup key
-- most     timers, and locks whose lease is over, in a page; pages: how many pages one call serves, since others wait for it
local timers = {
  most = 32, pages = 8,
  letters = { expiry = "e", delay = "d", dedup_key = "k", trash = "z", rest = "b", rest_isolated = "s", isolated = "w",
    poison = "p" },
}

-- Serves what is due. If more is due than one call can serve, the client is asked to call again before anything is decided
-- (context.missing). With `lax`, for a script whose result depends on no timer, true is returned instead.
function timers.serve(q, lax)
  if not queue.is_due(q) or not timers.all(q) then return end
  if lax then return true end
  context.ask_again()
end

-- Serves what is due, whatever q.due says, and sets q.due anew. Returns true if more is due.
function timers.all(q)
  timers.close_bucket(q)
  if q.due then q.due = context.now end -- until set_due: the bucket need not be looked at again
  local more, first = false, nil
  for _ = 1, timers.pages do
    local full, head = timers.page(q)
    -- A page that begins as the one before: its first lock is of no message, so nothing took it away. The doctor reports it.
    more = full and head ~= first
    if not more or context.missing then break end
    first = head
  end
  timers.set_due(q)
  return more
end

-- Sets q.due to the queue's next timer, or to the end of the present bucket of its statistics if that comes first.
function timers.set_due(q)
  local soon, ends = timers.next(q), queue.bucket_end()
  if soon == 0 then
    q.due = 0 -- what is left over is due since a moment before now that is not known
  elseif soon > 0 then
    q.due = math.min(context.now + soon, ends)
  else
    q.due = ends
  end
  q.changed = true
end

-- Ends the open bucket of the queue's statistics if its time is over. q.due is never later than the end of that bucket, so most
-- calls need not read the statistics: rounded up to the end of a bucket it is that end, or that of an earlier bucket.
function timers.close_bucket(q)
  if math.ceil((q.due or 0) / queue.bucket) * queue.bucket <= context.now then statistics.close(q) end
end

-- Ends the open bucket of a queue whose timers this call does not serve, since it works on another queue.
function timers.update_statistics(q)
  timers.close_bucket(q)
  timers.set_due(q)
end

-- Removes the timers with this letter of the messages in `places` of a batch that are not available any more (hook leave of
-- features/features). Messages that were locked before have none.
function timers.remove(q, letter, batch, places)
  local members = { nil }
  for k = 1, #places do
    if not (batch.held and batch.held[places[k]]) then members[#members + 1] = letter .. batch.ids[places[k]] end
  end
  chunked.run("ZREM", q.timers, members)
end

-- Returns the ms at which the delay of a message ends, as text; false if it is not delayed.
function timers.delayed_until(q, id)
  return redis.call("ZSCORE", q.timers, timers.letters.delay .. id)
end

-- Returns the ms at which the rest of a message in ;retry ends, as text; false if it does not rest. q: the parent.
function timers.resting_until(q, id)
  return redis.call("ZSCORE", q.timers, timers.letters.rest .. id)
    or redis.call("ZSCORE", q.timers, timers.letters.rest_isolated .. id)
end

-- Is a timer due that no call has served yet?
function timers.overdue(q)
  return queue.is_due(q) and timers.next(q) == 0
end

-- Serves a page of what is due. Returns whether the page was full, and its first elements.
function timers.page(q)
  if q.locks ~= "" then
    if (locks.first_deadline(q) or context.now) <= context.now then queue.expand_locks(q) end
  end
  local lapsed = redis.call("ZRANGEBYSCORE", q.locked, "-inf", context.now_text, "LIMIT", 0, timers.most)
  if #lapsed > 0 then lapse.locks(q, lapsed) end
  local members = redis.call("ZRANGEBYSCORE", q.timers, "-inf", context.now_text, "LIMIT", 0, timers.most)
  if #members > 0 then lapse.timers(q, members) end
  return #lapsed == timers.most or #members == timers.most, (lapsed[1] or "") .. (members[1] or "")
end

-- Returns the ms until the queue's next timer, as a number; -1 if it has none.
function timers.next(q)
  local first
  local heads = { redis.call("ZRANGE", q.locked, 0, 0, "WITHSCORES")[2],
    redis.call("ZRANGE", q.timers, 0, 0, "WITHSCORES")[2] }
  if q.locks ~= "" then heads[3] = locks.first_deadline(q) end
  for n = 1, 3 do
    local at = tonumber(heads[n])
    if at and at < queue.claimed then first = math.min(first or at, at) end
  end
  return first and math.max(0, first - context.now) or -1
end
