--- require "lib/frame"
--- require lazy "lib/lapse"
-- Timers are served by whoever comes by: a few due items of the queue before the script's own work.
local due = { most = 32 }

-- Serves lapsed locks and transactions, expiries and delays of this queue. True if more are due than it served.
-- q.due, kept with the queue, is never later than its earliest timer, so most calls need not look.
function due.serve(q)
  if not q.due or q.due > frame.now then return false end
  return due.all(q)
end

-- The same, whatever q.due says; it is set anew.
function due.all(q)
  local lapsed = redis.call("ZRANGEBYSCORE", q.l, "-inf", frame.stamp, "LIMIT", 0, due.most)
  if #lapsed > 0 then
    lapse.load()
    lapse.locks(q, lapsed)
  end
  local timers = redis.call("ZRANGEBYSCORE", q.t, "-inf", frame.stamp, "LIMIT", 0, due.most)
  if #timers > 0 then
    lapse.load()
    lapse.timers(q, timers)
  end
  local soon = due.next(q)
  -- What is left over is due since some moment before now: 0, which is not later than that either.
  q.due = soon > 0 and frame.now + soon or soon == 0 and 0 or nil
  q.changed = true
  return #lapsed == due.most or #timers == due.most
end

-- The lock of this message is over, but more were due than one call serves: it is given back now, before anybody
-- trusts it. Nothing to do in almost every call, and then nothing is read.
function due.one(q, lid)
  if not q.due or q.due > frame.now then return end
  local deadline = redis.call("ZSCORE", q.l, lid)
  if deadline and tonumber(deadline) <= frame.now then
    lapse.load()
    lapse.locks(q, { lid })
  end
end

-- Milliseconds until the queue's next timer, as a number; -1 if it has none. Scores from 2^52 on: claims (lib/claim).
function due.next(q)
  local soon = -1
  local heads = { redis.call("ZRANGE", q.l, 0, 0, "WITHSCORES"), redis.call("ZRANGE", q.t, 0, 0, "WITHSCORES") }
  for n = 1, 2 do
    if heads[n][2] and tonumber(heads[n][2]) < 4503599627370496 then
      local left = math.max(0, tonumber(heads[n][2]) - frame.now)
      if soon < 0 or left < soon then soon = left end
    end
  end
  return soon
end
