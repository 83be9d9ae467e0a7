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
  q.due = soon >= 0 and frame.now + soon or nil
  q.noted = true
  return #lapsed == due.most or #timers == due.most
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
