--- require "core/context"
--- require "core/queue"
--- require "core/record"
--- require lazy "matching/index"
--- require lazy "features/group_lock"
-- What the scripts do for messages whose head asks for something: timers now, more as features land.
-- A plain message never comes here.
local special = {}

-- The message would become available: "expired", "delayed" (a timer was set instead), "busy" (available, but it is not
-- the turn of its group), or nothing. `keys` are its fields (record.keys); `later` is what index.add takes.
function special.arrive(q, lid, rec, now, keys, later)
  local expires = string.find(keys, "e", 1, true) and record.expires(rec)
  if expires and expires <= now then return "expired" end
  if expires then
    redis.call("ZADD", q.t, expires, "e" .. lid)
    queue.set_timer(q, expires)
  end
  local held = string.find(keys, "D", 1, true) and record.due(rec)
  if held and held > now then
    redis.call("ZADD", q.t, held, "d" .. lid)
    queue.set_timer(q, held)
    return "delayed"
  end
  index.load()
  local turns = string.find(q.flags, "x", 1, true) and not q.parent
  if turns then later = nil end
  index.add(q, lid, rec, keys, later)
  if turns then
    group_lock.load()
    return group_lock.arrive(q, lid, rec) and "busy" or nil
  end
end

-- The message stops being available: it is locked, taken or removed. `keys` are its fields, `later` is what index.drop
-- takes; `held`: it was locked until now, so its timers and its index are gone already.
function special.leave(q, lid, rec, locked, keys, later, held)
  local turns = string.find(q.flags, "x", 1, true) and not q.parent
  if turns then later = nil end
  if not held then
    if string.find(keys, "[eD]") then redis.call("ZREM", q.t, "e" .. lid, "d" .. lid) end
    index.load()
    index.drop(q, lid, rec, keys, later)
  end
  if turns then
    group_lock.load()
    group_lock.leave(q, lid, rec, locked)
  end
end

-- The message is gone for good. Its dedup key goes with it, but not before its window is over; one that was never
-- sent frees it at once. The keys of a family stand with the parent: "k" key in its timers.
function special.gone(q, rec, reason)
  local key = record.field(rec, "k")
  if not key then return end
  local home = q.parent or q
  local over = tonumber(string.sub(rec, 1, 13)) + tonumber(record.field(rec, "K") or 0)
  if reason == "aborted" or over <= context.now then
    redis.call("ZREM", home.t, "k" .. key)
  else
    redis.call("ZADD", home.t, string.format("%.0f", over), "k" .. key)
    queue.set_timer(home, over)
  end
end

-- Decide: is one of these messages a duplicate? Its key is held while the message is in the queue and while its
-- window runs.
function special.duplicate(q, entries)
  local seen = {}
  for n = 1, #entries do
    local key = record.flag(entries[n].rec, 1) and record.field(entries[n].rec, "k")
    if key then
      if seen[key] or redis.call("ZSCORE", q.t, "k" .. key) then return true end
      seen[key] = true
    end
  end
end

-- Apply: hold the keys of messages that are accepted now. A topic keeps no message, so there only the window counts.
function special.hold(q, entries)
  for n = 1, #entries do
    local rec = entries[n].rec
    local key = record.flag(rec, 1) and record.field(rec, "k")
    if key then
      local over = queue.has(q, "f") and context.now + tonumber(record.field(rec, "K") or 0) or 9e15
      redis.call("ZADD", q.t, string.format("%.0f", over), "k" .. key)
      queue.set_timer(q, over)
    end
  end
end
