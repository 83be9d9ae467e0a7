--- require "core/context"
--- require "core/queue"
--- require lazy "core/record"
--- require lazy "core/position"
--- require lazy "features/other_queues"
--- require lazy "features/failure"
--- require lazy "features/trace"
--- require lazy "core/transfer"
--- require "core/store"
--- used by core/release, features/features, features/trash
-- The retry policy of a queue: what happens to a message that a reader gave back, or whose lease lapsed.
-- The policy compares its limit with the message's attempts (docs/decisions/attempts.md). A round is one attempt
-- and the immediate retries; between two rounds the message rests in the subqueue ;retry. If the policy isolates, a
-- message whose lease lapsed returns to the subqueue ;lapsed instead of its queue: workers take one at a time there.
--
-- Stored in the queue's field "retry" as "<immediate> <cycles> <delay> <factor> <most> <final> <jitter> <isolate> <letters>":
-- delay and most in ms, isolate 0 or 1, letters the encoded name of the policy's dead letter queue, "-" for none.
--
-- Timers in the queue's t: "b"id back from ;retry; "s"id from ;retry to ;lapsed; "w"id from ;lapsed, where no worker
-- took the message for `patience` ms, back to the queue; "p"id the end of the time that the queue keeps it in ;poison.
local retry = {
  reason = { dead_letter = "poison", reject = "receive_rejected", drop = "dropped" },
  event = { reject = "rejected", drop = "dropped" }, -- features/trail
  patience = 600000,
  -- Bytes by which a copy among the dead letters may be larger than its message, without its report.
  margin = 1024,
  default = "0 0 0 1 0 poison 0 0 -",
}

-- The queue whose policy counts for messages of q: a subqueue follows that of its parent.
function retry.home(q)
  return q.parent or q
end

function retry.policy(q)
  local home = retry.home(q)
  if not home.retry then
    local found = redis.call("HMGET", home.key, "retry", "poison_quota_messages", "poison_quota_bytes", "failed_ttl")
    local text = found[1] and found[1] ~= "" and found[1] or retry.default
    local immediate, cycles, delay, factor, most, final, jitter, isolate, letters =
      string.match(text, "^(%d+) (%d+) (%d+) (%S+) (%d+) (%S+) (%S+) (%d) (%S+)$")
    home.altered = true
    home.retry = { round = tonumber(immediate) + 1, cycles = tonumber(cycles), delay = tonumber(delay),
      factor = tonumber(factor), most = tonumber(most), final = final, jitter = tonumber(jitter),
      isolate = isolate == "1", letters = letters ~= "-" and letters or nil,
      messages = tonumber(found[2] or ""), bytes = tonumber(found[3] or ""),
      kept = tonumber(found[4] or "") }
  end
  return home.retry
end

-- How many attempts were made: deliveries but for those that a reader gave back in order.
function retry.attempts(e)
  return e.st.deliveries - e.st.uncounted
end

-- Where the message goes: "again" to its old place, "retry" or "lapsed" after a rest, or where the policy ends: "poison",
-- "dead_letter", "reject", "drop". The entry's fields verdict, rest and lapsed are those of core/release.
function retry.fate(q, e)
  local policy, attempts = retry.policy(q), retry.attempts(e)
  if record.is_expired(e.rec, context.now) then return "again" end
  if e.verdict == "b" then return e.rest and "retry" or "again" end
  if e.verdict == "e" or attempts >= policy.round * (policy.cycles + 1) then return retry.final(q, e) end
  if e.lapsed and policy.isolate then return "lapsed" end
  return attempts % policy.round == 0 and "retry" or "again"
end

-- The policy's end. A message for which there is no room among the dead letters becomes poison; one for which there is
-- no room in ;poison goes on resting: neither is lost.
function retry.final(q, e)
  local policy = retry.policy(q)
  local final = policy.final
  if final == "dead_letter" then
    local letters = retry.letters(q, e)
    if not letters or retry.full(letters, position.size(q, e) + retry.margin + #(e.report or "")) then
      final = "poison"
    end
  end
  if final == "poison" then
    local poison = retry.target(q, "poison")
    if poison == q then return "again" end
    if poison and retry.full(poison, position.size(q, e) + retry.margin + #(e.report or "")) then
      e.rest = math.max(policy.most, 1000)
      return "retry"
    end
  end
  return final
end

-- Has a queue for failed messages no room in its own quota? That of the manager does not keep them from it.
function retry.full(to, bytes)
  return to.quota_messages and to.messages + 1 > to.quota_messages
    or to.quota_bytes and to.bytes + bytes > to.quota_bytes
end

-- The queue of the dead letter; nothing if it does not exist, or is a topic.
function retry.letters(q, e)
  trace.load()
  other_queues.load()
  e.letters = retry.policy(q).letters
  local name, make = trace.letters(e)
  local to = other_queues.find(name, make)
  return to and not to.options.topic and to or nil
end

function retry.target(q, name)
  other_queues.load()
  local home = retry.home(q)
  local to = other_queues.find(queue.name(home) .. "%3B" .. name, true)
  if to then
    queue.set_parent(to, home)
    if name == "poison" then
      to.quota_messages, to.quota_bytes = retry.policy(q).messages, retry.policy(q).bytes
    end
  end
  return to
end

-- Decide: are the queues at hand? Where one has a quota, also the one that a message goes to when it is full.
function retry.plan(q, entries)
  for n = 1, #entries do
    local fate = retry.fate(q, entries[n])
    if fate == "dead_letter" then
      local letters = retry.letters(q, entries[n])
      if letters.quota_messages or letters.quota_bytes then fate = "poison" end
    end
    if fate == "poison" then
      local poison = retry.target(q, "poison")
      if poison and (poison.quota_messages or poison.quota_bytes) then fate = "retry" end
    end
    if fate == "retry" then
      retry.target(q, "retry")
    elseif fate == "lapsed" then
      retry.target(q, "retry")
      retry.target(q, "lapsed")
    elseif fate == "dead_letter" or fate == "reject" then
      trace.load()
      trace.plan(q, { entries[n] }, retry.reason[fate])
    end
  end
end

-- Apply: entries that are locked no more, and not available yet.
function retry.judge(q, entries)
  local retried = 0
  for n = 1, #entries do
    local e = entries[n]
    local fate = retry.fate(q, e)
    if e.retried and not retry.reason[fate] and fate ~= "poison" then retried = retried + 1 end
    if fate == "again" then
      position.arrive_entries(q, { e })
      if queue.is_subqueue(q, "lapsed") then retry.timer(q, "w", e, context.now + retry.patience) end
    elseif retry.reason[fate] then
      e.event = retry.event[fate]
      failure.load()
      failure.report(e, retry.attempts(e))
      position.delete(q, { e }, retry.reason[fate])
    elseif fate == "poison" then
      failure.load()
      e.event = "poisoned"
      failure.report(e, retry.attempts(e), "poison")
      transfer.load()
      transfer.move(q, retry.target(q, "poison"), { e })
      store.count_event(retry.home(q), "n_poison", 1)
      local kept = retry.policy(q).kept
      if kept then retry.timer(q, "p", e, context.now + kept * 1000) end
    else
      retry.rests(q, e, fate)
    end
  end
  if retried > 0 then store.count_event(retry.home(q), "n_retried", retried) end
end

-- It rests in ;retry, and goes on to `fate` from there. A message that lapsed and need not rest goes there at once.
function retry.rests(q, e, fate)
  local rest = e.rest or retry.rest(q, e)
  e.report, e.event = nil, "resting"
  transfer.load()
  if fate == "lapsed" and rest == 0 then
    transfer.move(q, retry.target(q, "lapsed"), { e })
    return retry.timer(q, "w", e, context.now + retry.patience)
  end
  transfer.move(q, retry.target(q, "retry"), { e })
  retry.timer(q, fate == "lapsed" and "s" or "b", e, context.now + rest)
end

-- Sets one of the policy's timers for a message, in place of any other.
function retry.timer(q, kind, e, at)
  local home = retry.home(q)
  redis.call("ZREM", home.timers, "b" .. e.lid, "s" .. e.lid, "w" .. e.lid, "p" .. e.lid)
  redis.call("ZADD", home.timers, string.format("%.0f", at), kind .. e.lid)
  queue.set_timer(home, at)
  home.has_special, home.changed = true, true -- a purge must look at what the queue's timers are for
end

-- How long it rests before the next round, in ms. Messages that fail together do not come back together: each rest is
-- longer by a part of it that its id decides, up to the policy's jitter.
function retry.rest(q, e)
  local p = retry.policy(q)
  local rest = math.min(p.most, math.floor(p.delay * p.factor ^ (math.max(retry.attempts(e) / p.round, 1) - 1)))
  local part = tonumber(string.sub(e.lid, -4), 16) * 40503 % 65536 / 65536
  return math.floor(rest * (1 + p.jitter * part))
end

-- The subqueue that holds the messages of these timers.
retry.places = { b = "retry", s = "retry", w = "lapsed", p = "poison" }

-- Of these ids, whose time there is over, those that no reader took from there meanwhile.
function retry.rested(q, ids, name)
  local from, free = retry.target(q, name), {}
  if not from then return free end
  local entries = position.read(from, ids)
  for n = 1, #entries do
    if redis.call("ZSCORE", from.available, entries[n].lid) then free[#free + 1] = entries[n] end
  end
  return free
end

-- Timers of the policy: "b" the end of a rest in ;retry; "s" the same for messages that go on to ;lapsed; "w" the end of the
-- time in which a worker may take a message from there; "p" the end of the time that a message is kept in ;poison.
function retry.plan_due(q, ids, letter)
  local entries = retry.rested(q, ids, retry.places[letter])
  if letter == "s" then retry.target(q, "lapsed") end
  trace.load()
  trace.expiring(q, entries)
  return entries
end

function retry.due(q, entries, letter)
  if #entries == 0 then return end
  if letter == "s" then return retry.isolate(q, entries) end
  if letter == "p" then return position.delete(retry.target(q, "poison"), entries, "dropped") end
  retry.back(q, entries, retry.places[letter])
end

-- Back to their places.
function retry.back(q, entries, from)
  for n = 1, #entries do entries[n].event = "retried" end
  transfer.load()
  transfer.move(retry.target(q, from), q, entries)
end

-- Their rest is over; now a worker may take them one at a time.
function retry.isolate(q, entries)
  for n = 1, #entries do entries[n].event = "retried" end
  transfer.load()
  transfer.move(retry.target(q, "retry"), retry.target(q, "lapsed"), entries)
  for n = 1, #entries do retry.timer(q, "w", entries[n], context.now + retry.patience) end
end

-- These messages are in q again, one of the policy's subqueues, after they were elsewhere for a time (features/trash). The timers
-- that they had there went on meanwhile; one whose timer is over gets another, so that it does not stay for ever.
function retry.restored(q, entries)
  local home, name, letter, rest = retry.home(q), string.match(queue.name(q), "%%3B(.*)$"), "b", 0
  if name == "lapsed" then
    letter, rest = "w", retry.patience
  elseif name == "poison" then
    local kept = retry.policy(q).kept
    if not kept then return end
    letter, rest = "p", kept * 1000
  elseif name ~= "retry" then
    return
  end
  for n = 1, #entries do
    local id = entries[n].lid
    local timed = redis.call("ZSCORE", home.timers, letter .. id)
      or letter == "b" and redis.call("ZSCORE", home.timers, "s" .. id)
    if not timed then retry.timer(q, letter, entries[n], context.now + rest) end
  end
end

retry.hooks = { plan_due = retry.plan_due, due = retry.due }
