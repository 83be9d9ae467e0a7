--- require "core/context"
--- require "core/queue"
--- require lazy "core/record"
--- require lazy "core/position"
--- require lazy "features/other_queues"
--- require lazy "features/trace"
--- require lazy "core/transfer"
-- The retry policy of a queue: what becomes of a message that its reader gave back or let lapse, decided by how often
-- it was handed out. A round is one delivery and the immediate retries; between rounds it rests in ;retry.
-- Kept in the queue's field "retry": immediate cycles delay_ms factor max_ms final.
local retry = { reason = { dead_letter = "poison", reject = "receive_rejected", drop = "dropped" } }

function retry.policy(q)
  if not q.retry then
    local immediate, cycles, delay, factor, most, final =
      string.match(redis.call("HGET", q.q, "retry") or "0 0 0 1 0 drop", "^(%d+) (%d+) (%d+) (%S+) (%d+) (%S+)$")
    q.retry = { round = tonumber(immediate) + 1, cycles = tonumber(cycles), delay = tonumber(delay),
      factor = tonumber(factor), most = tonumber(most), final = final }
  end
  return q.retry
end

-- "again" at once, "cycle" through ;retry, or the policy's end: poison, dead_letter, reject, drop.
function retry.fate(q, e)
  local p, count = retry.policy(q), e.st.deliveries
  local expires = record.flag(e.rec, 1) and record.expires(e.rec)
  if expires and expires <= context.now then return "again" end
  if count >= p.round * (p.cycles + 1) then return p.final end
  return count % p.round == 0 and "cycle" or "again"
end

function retry.target(q, name)
  other_queues.load()
  local to = other_queues.find(queue.name(q) .. "%3B" .. name, true)
  if to then queue.set_parent(to, q) end
  return to
end

-- Decide: are the queues at hand?
function retry.plan(q, entries)
  for n = 1, #entries do
    local fate = retry.fate(q, entries[n])
    if fate == "cycle" or fate == "poison" then
      retry.target(q, fate == "cycle" and "retry" or "poison")
    elseif fate == "dead_letter" or fate == "reject" then
      trace.load()
      trace.plan(q, { entries[n] }, retry.reason[fate])
    end
  end
end

-- Apply: entries that are locked no more, and not available yet.
function retry.judge(q, entries)
  for n = 1, #entries do
    local e = entries[n]
    local fate = retry.fate(q, e)
    if fate == "again" then
      position.arrive(q, { e })
    elseif retry.reason[fate] then
      position.delete(q, { e }, retry.reason[fate])
    else
      transfer.load()
      transfer.move(q, retry.target(q, fate == "cycle" and "retry" or "poison"), { e })
      if fate == "cycle" then
        local over = context.now + retry.rest(q, e)
        redis.call("ZADD", q.t, string.format("%.0f", over), "b" .. e.lid)
        queue.set_timer(q, over)
        q.has_special, q.changed = true, true -- a purge must look at what the queue's timers are for
      end
    end
  end
end

-- How long it rests before the next round, in ms.
function retry.rest(q, e)
  local p = retry.policy(q)
  return math.min(p.most, math.floor(p.delay * p.factor ^ (e.st.deliveries / p.round - 1)))
end

-- Of these ids, whose rest is over, those that nobody took from ;retry meanwhile.
function retry.rested(q, ids)
  local from, free = retry.target(q, "retry"), {}
  if not from then return free end
  local entries = position.read(from, ids)
  for n = 1, #entries do
    if redis.call("ZSCORE", from.a, entries[n].lid) then free[#free + 1] = entries[n] end
  end
  return free
end

-- Back to their places.
function retry.back(q, entries)
  transfer.load()
  transfer.move(retry.target(q, "retry"), q, entries)
end
