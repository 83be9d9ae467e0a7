--- require "lib/frame"
-- Sessions and their slots. KEYS[6] idle: zset of session numbers, score: when to look whether one was used since.
local session = { chunk = 16 }

-- Forgets a session with its slots and what its waiters were handed.
function session.drop(number)
  local from = 0
  repeat
    local fields = {}
    for n = from, from + session.chunk - 1 do
      fields[#fields + 1] = number .. "." .. n
      fields[#fields + 1] = number .. "." .. n .. "!"
    end
    from = from + session.chunk
  until redis.call("HDEL", KEYS[2], unpack(fields)) == 0
  redis.call("HDEL", KEYS[2], number)
  redis.call("ZREM", KEYS[6], number)
  frame.touch()
end

-- When one of its slots was last used, in ms; 0 if none ever was.
function session.used(number)
  local last, from, any = 0, 0, true
  while any do
    local slots = {}
    for n = from, from + session.chunk - 1 do slots[#slots + 1] = number .. "." .. n end
    local kept = redis.call("HMGET", KEYS[2], unpack(slots))
    any = false
    for n = 1, #slots do
      if kept[n] then
        any = true
        last = math.max(last, tonumber(string.match(kept[n], "^%d+ (%d+)")))
      end
    end
    from = from + session.chunk
  end
  return last
end

-- Drops a few sessions that nobody used for their time to live.
function session.sweep()
  local idle = redis.call("ZRANGEBYSCORE", KEYS[6], "-inf", string.format("%.0f", frame.now), "LIMIT", 0, 8)
  for n = 1, #idle do
    local ttl = tonumber(redis.call("HGET", KEYS[2], idle[n]) or 0)
    local until_ms = session.used(idle[n]) + ttl
    if until_ms > frame.now then
      redis.call("ZADD", KEYS[6], until_ms, idle[n])
    else
      session.drop(idle[n])
    end
  end
end
