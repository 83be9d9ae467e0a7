--- require "lib/frame"
-- Waiting readers. A member of q.w is "<slot> <kind> <mode> <tag>": kind D destructive, C destructive with a
-- cursor, P peek; mode k<db> ring by keyspace notification, p<db> by PUBLISH on the same channel; score: ticket, so that
-- a reader that looked in vain keeps its place. A wake is a hint: nothing is reserved for a destructive
-- reader. A peek reader is handed a copy, since the reader behind it may take the message before it has looked.
local wake = {}

-- The stem of the doorbell keys: "mq:{manager}:bell:".
function wake.bell(slot)
  return string.sub(KEYS[1], 1, -5) .. "bell:" .. slot
end

-- Rings one doorbell; false if nobody listens to it any more. The key is computed, not declared, and the calls are
-- protected: these are the last writes of a script, and a wake may fail (docs/decisions/0005).
function wake.one(slot, mode)
  local key = wake.bell(slot)
  local channel = "__keyspace@" .. string.sub(mode, 2) .. "__:" .. key
  if string.sub(mode, 1, 1) == "p" then return redis.pcall("PUBLISH", channel, "sadd") ~= 0 end
  local listeners = redis.pcall("PUBSUB", "NUMSUB", channel)
  if type(listeners) == "table" and tonumber(listeners[2]) == 0 then return false end
  redis.pcall("SADD", key, "1")
  redis.pcall("DEL", key)
  return true
end

-- Serves the readers that wait on a queue in which q.arrived became available (3.1.7.2.2): peek readers before the
-- first destructive one are handed a copy; each destructive one uses up one message.
function wake.ring(q)
  local ids = q.arrived
  if not ids or #ids == 0 then return end
  q.arrived = nil
  local at, rung, from = 1, {}, 0
  while at <= #ids and from < 1000 do
    local waiting = redis.call("ZRANGE", q.w, from, from + 63)
    for n = 1, #waiting do
      local slot, kind, mode = string.match(waiting[n], "^(%S+) (%S) (%S+)")
      rung[#rung + 1] = waiting[n]
      if kind == "P" then
        wake.hand(q, slot, ids[at])
        wake.one(slot, mode)
      else
        if kind == "C" then redis.call("HSET", KEYS[2], slot .. "!", "h " .. ids[at]) end
        if wake.one(slot, mode) then at = at + 1 end
        if at > #ids then break end
      end
    end
    if #waiting < 64 then break end
    from = from + 64
  end
  if #rung > 0 then redis.call("ZREM", q.w, unpack(rung)) end
end

-- A copy of the message for a waiting peek, so that it sees what satisfied it.
function wake.hand(q, slot, lid)
  local rec = redis.call("HGET", q.m, lid)
  if not rec then return end
  local large = redis.call("HGET", q.m, "^" .. lid) or ""
  local state = redis.call("HGET", q.s, lid) or ""
  redis.call("HSET", KEYS[2], slot .. "!", "m " .. lid .. " " .. string.match(state, "^%d* ?%d* ?%d* ?%d*")
    .. "\n" .. rec .. large)
end

-- What was handed to this slot while it waited: kind ("h" hint, "m" message, "c" cancelled) and the rest; or nothing.
function wake.handed()
  local text = redis.call("HGET", KEYS[2], ARGV[1] .. "!")
  if not text then return end
  redis.call("HDEL", KEYS[2], ARGV[1] .. "!")
  return string.sub(text, 1, 1), string.sub(text, 3)
end

-- Registers this slot as a waiting reader, at `ticket` if it had one. Returns its ticket.
function wake.wait(q, member, ticket)
  ticket = ticket == "" and string.format("%.0f", redis.call("HINCRBY", q.q, "tickets", 1)) or ticket
  redis.call("ZADD", q.w, "NX", ticket, member)
  return ticket
end

-- Rings everybody, for a queue that goes away.
function wake.all(q)
  local waiting = redis.call("ZRANGE", q.w, 0, -1)
  for n = 1, #waiting do
    local slot, mode = string.match(waiting[n], "^(%S+) %S (%S+)")
    wake.one(slot, mode)
  end
end
