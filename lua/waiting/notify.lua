--- require lazy "waiting/match_waiters"
--- require lazy "features/group_lock"
--- require "core/context"
--- require "core/message_state"
--- require "core/queue"
--- used by cancel, queue_delete, queue_update, stop_waiting, waiting/handoff, waiting/match_waiters, waiting/waiters
-- Notification of waiting readers (waiting/waiters describes a waiter). Loaded only if readers wait.
local notify = {}

-- The wake key of a slot, "mq:{manager}:wake:<slot>", and its channel. The key is computed, not declared: it never exists
-- between two commands.
function notify.channel(slot, database)
  local key = string.sub(KEYS[1], 1, -5) .. "wake:" .. slot
  return key, "__keyspace@" .. database .. "__:" .. key
end

-- How many clients are subscribed to a channel; nothing if this user may not ask.
function notify.listeners(channel)
  local reply = redis.pcall("PUBSUB", "NUMSUB", channel)
  return reply[2] and tonumber(reply[2])
end

-- Adds and deletes a wake key, which the server publishes on its channel. The calls are protected: these are the last writes
-- of a script, and a notification may fail (docs/decisions/waiting.md).
function notify.wake(key)
  redis.pcall("SADD", key, "1")
  redis.pcall("DEL", key)
end

-- Notifies one reader; false if no client is subscribed to its channel any more.
function notify.one(slot, mode)
  local key, channel = notify.channel(slot, string.sub(mode, 2))
  if string.sub(mode, 1, 1) == "p" then return redis.pcall("PUBLISH", channel, "sadd") ~= 0 end
  if notify.listeners(channel) == 0 then return false end
  notify.wake(key)
  return true
end

-- Serves the readers that wait on a queue in which q.arrived became available (3.1.7.2.2): peek readers before the
-- first destructive one are handed a copy; each destructive one uses up one message. Of q.shown peek readers alone.
function notify.serve(q)
  local ids, shown = q.arrived or {}, q.shown
  q.arrived, q.shown = false, false
  if #ids > 0 then notify.offer(q, ids, false) end
  if shown then notify.offer(q, shown, true) end
end

-- Notifies readers of these messages. `peeks`: only readers that take nothing; `behind`: only readers behind this member of
-- q.waiters, which wants a particular message.
function notify.offer(q, ids, peeks, behind)
  if #ids == 0 then return end
  local first = redis.call("ZRANGE", q.waiters, 0, 63)
  if first[1] and string.find(first[1], "^%S+ %S %S+ %S+ ") then -- readers of particular messages come first
    match_waiters.load()
    ids, first = match_waiters.notify_one(q, ids, peeks, behind), nil
  end
  notify.any(q, ids, first, peeks)
end

-- A list of the message that this slot was notified of, or of the first one if that message is gone. Empty if no other
-- reader may have it now.
function notify.left(q)
  local lid = string.match(context.handed or "", "^[hn] (%x+)$")
  if not lid or not redis.call("ZSCORE", q.available, lid) then lid = redis.call("ZRANGE", q.available, 0, 0)[1] end
  if lid and q.locks_groups then
    group_lock.load()
    local rec = redis.call("HGET", q.records, lid)
    if rec and group_lock.busy(q, rec) then return {} end
  end
  return { lid }
end

-- Readers that take whatever comes. `first`: the first of them, if they are known; `peeks` as above.
function notify.any(q, ids, first, peeks)
  local at, notified, from = 1, {}, 0
  while at <= #ids and from < 1000 do
    local waiting = first or redis.call("ZRANGEBYSCORE", q.waiters, 0, "+inf", "LIMIT", from, 64)
    first = nil
    for n = 1, #waiting do
      local slot, kind, mode = string.match(waiting[n], "^(%S+) (%S) (%S+)")
      if kind == "P" or not peeks then notified[#notified + 1] = waiting[n] end
      if kind == "P" then
        notify.hand(q, slot, ids[at])
        notify.one(slot, mode)
      elseif not peeks and notify.one(slot, mode) then
        -- Which message is meant: of two readers notified together, the one that waited longer gets the first.
        redis.call("HSET", KEYS[1], slot .. "!", "h " .. ids[at])
        at = at + 1
        if at > #ids then break end
      end
    end
    if #waiting < 64 then break end
    from = from + 64
  end
  if #notified > 0 then
    redis.call("ZREM", q.waiters, unpack(notified))
  elseif redis.call("EXISTS", q.waiters) == 0 then
    -- Not earlier: most readers that were notified wait again before the next message comes.
    q.waiting = false
    queue.write(q)
  end
end

-- A copy of the message for a waiting peek, so that it sees what satisfied it.
function notify.hand(q, slot, lid)
  local rec = redis.call("HGET", q.records, lid)
  if not rec then return end
  local large = redis.call("HGET", q.records, "^" .. lid) or ""
  local state = redis.call("HGET", q.states, lid)
  local shown = state and message_state.shown(message_state.parse(state)) or ""
  redis.call("HSET", KEYS[1], slot .. "!", "m " .. lid .. " " .. shown .. "\n" .. rec .. large)
end

-- Notifies all readers, since the queue goes away or may not be read any more.
function notify.all(q)
  local waiting = redis.call("ZRANGE", q.waiters, 0, -1)
  for n = 1, #waiting do
    local slot, mode = string.match(waiting[n], "^(%S+) %S (%S+)")
    notify.one(slot, mode)
  end
end
