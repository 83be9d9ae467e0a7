--- require "lib/frame"
--- require "lib/position"
--- require "lib/record"
-- Timers are served by whoever comes by: a few due items of the queue before the script's own work.
local due = { most = 32 }

-- Serves lapsed locks and transactions, expiries and delays of this queue. True if more are due than it served.
function due.serve(q)
  local now = string.format("%.0f", frame.now)
  local lapsed = redis.call("ZRANGEBYSCORE", q.l, "-inf", now, "LIMIT", 0, due.most)
  if #lapsed > 0 then due.lapse(q, lapsed) end
  local timers = redis.call("ZRANGEBYSCORE", q.t, "-inf", now, "LIMIT", 0, due.most)
  if #timers > 0 then due.fire(q, timers) end
  return #lapsed == due.most or #timers == due.most
end

-- The lease of these locks is over. A transaction that was renewed keeps its messages; one that was not is over as
-- a whole: its record goes, and each queue it touched gives its messages back when somebody comes by.
function due.lapse(q, ids)
  local locked, received, sent = {}, {}, {}
  local entries = position.read(q, ids)
  for n = 1, #entries do
    local e = entries[n]
    local kind = string.sub(e.st.kind, 1, 1)
    local renewed = kind ~= "L" and due.transaction(e.st.owner)
    if renewed then
      redis.call("ZADD", q.l, renewed, e.lid)
    elseif kind == "S" then
      sent[#sent + 1] = e
    elseif kind == "R" then
      received[#received + 1] = e
    else
      locked[#locked + 1] = e
    end
  end
  position.unlock(q, locked, false)
  position.unlock(q, received, true)
  position.delete(q, sent, "aborted")
end

-- The deadline of a transaction that is still alive, as text; else it is ended here, and nothing is returned.
function due.transaction(id)
  local text = redis.call("HGET", KEYS[3], id)
  if not text then return end
  local deadline, count = string.match(text, "^(%d+) %d+ (%d+)")
  if tonumber(deadline) > frame.now then return deadline end
  redis.call("HDEL", KEYS[3], id)
  for from = 1, tonumber(count), 500 do
    local fields = {}
    for k = from, math.min(from + 499, tonumber(count)) do fields[#fields + 1] = id .. ":" .. k end
    redis.call("HDEL", KEYS[3], unpack(fields))
  end
  frame.touch()
end

function due.fire(q, timers)
  local ready, expired = {}, {}
  for n = 1, #timers do
    local e = position.read(q, { string.sub(timers[n], 2) })[1]
    redis.call("ZREM", q.t, timers[n])
    if e and string.sub(timers[n], 1, 1) == "e" then
      expired[#expired + 1] = e
    elseif e then
      ready[#ready + 1] = e
    end
  end
  frame.touch()
  position.delete(q, expired, "receive_timeout")
  position.arrive(q, ready)
end

-- Milliseconds until the queue's next timer, as a number; -1 if it has none.
function due.next(q)
  local soon = -1
  local heads = { redis.call("ZRANGE", q.l, 0, 0, "WITHSCORES"), redis.call("ZRANGE", q.t, 0, 0, "WITHSCORES") }
  for n = 1, 2 do
    if heads[n][2] then
      local left = math.max(0, tonumber(heads[n][2]) - frame.now)
      if soon < 0 or left < soon then soon = left end
    end
  end
  return soon
end
