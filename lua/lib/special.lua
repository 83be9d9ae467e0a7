--- require "lib/record"
--- require "lib/queue"
--- require lazy "lib/index"
--- require lazy "lib/turn"
-- What the scripts do for messages whose head asks for something: timers now, more as features land.
-- A plain message never comes here.
local special = {}

-- The message would become available: "expired", "delayed" (a timer was set instead), "busy" (available, but it is not
-- the turn of its group), or nothing.
function special.arrive(q, lid, rec, now)
  local expires = record.expires(rec)
  if expires and expires <= now then return "expired" end
  if expires then
    redis.call("ZADD", q.t, expires, "e" .. lid)
    queue.note(q, expires)
  end
  local held = record.due(rec)
  if held and held > now then
    redis.call("ZADD", q.t, held, "d" .. lid)
    queue.note(q, held)
    return "delayed"
  end
  index.load()
  index.add(q, lid, rec)
  if string.find(q.flags, "x", 1, true) and not q.parent then
    turn.load()
    return turn.arrive(q, lid, rec) and "busy" or nil
  end
end

-- The message stops being available: it is locked, taken or removed.
function special.leave(q, lid, rec, locked)
  if record.field(rec, "e") or record.field(rec, "D") then redis.call("ZREM", q.t, "e" .. lid, "d" .. lid) end
  index.load()
  index.drop(q, lid, rec)
  if string.find(q.flags, "x", 1, true) and not q.parent then
    turn.load()
    turn.leave(q, lid, rec, locked)
  end
end
