--- require lazy "waiting/match_waiters"
--- require lazy "features/group_lock"
--- require "core/context"
--- require "core/message_state"
--- require "core/queue"
--- require "waiting/waiter_text"
--- used by cancel, queue_delete, queue_update, stop_waiting, waiting/handoff, waiting/match_waiters, waiting/waiters
-- Notifies readers that wait (waiting/waiters), and offers them the messages that became available. Loaded only if readers
-- wait.
--
-- Notifications are the last writes of a script, and may fail: a reader that misses one asks again some seconds later
-- (docs/decisions/waiting.md).
--
-- Readers with a filter have scores below 0 in q.waiters, so they stand in front of all others.
--
-- page: readers that one command reads; most: readers that notify.offer_any looks at, about.
local notify = { page = 64, most = 1000 }

-- One reader ------------------------------------------------------------------------------------------------------------

-- Returns the wake key of a slot, "mq:{manager}:wake:<slot>", and its channel in this database. The key is computed, not
-- declared in KEYS: it never exists between two commands.
function notify.channel(slot, database)
  local key = string.sub(KEYS[1], 1, -5) .. "wake:" .. slot
  return key, "__keyspace@" .. database .. "__:" .. key
end

-- Returns how many clients are subscribed to a channel; nil if this user may not ask.
function notify.listeners(channel)
  local reply = redis.pcall("PUBSUB", "NUMSUB", channel)
  return reply[2] and tonumber(reply[2])
end

-- Adds and deletes a wake key, which the server publishes on its channel.
function notify.wake(key)
  redis.pcall("SADD", key, "1")
  redis.pcall("DEL", key)
end

-- Notifies one reader in its mode (waiting/waiter_text). Returns false if no client is subscribed to its channel any more.
function notify.one(slot, mode)
  local key, channel = notify.channel(slot, string.sub(mode, 2))
  if string.sub(mode, 1, 1) == "p" then return redis.pcall("PUBLISH", channel, "sadd") ~= 0 end
  if notify.listeners(channel) == 0 then return false end
  notify.wake(key)
  return true
end

-- Notifies all readers, since the queue goes away or may not be read any more.
function notify.all(q)
  local waiting = redis.call("ZRANGE", q.waiters, 0, -1)
  for n = 1, #waiting do
    local slot, _, mode = waiter_text.parse(waiting[n])
    notify.one(slot, mode)
  end
end

-- Messages --------------------------------------------------------------------------------------------------------------

-- Offers what became available in this call: q.arrived to all readers, q.shown, which no reader may take yet, to peeks alone.
function notify.serve(q)
  local ids, shown = q.arrived or {}, q.shown
  q.arrived, q.shown = false, false
  if #ids > 0 then notify.offer(q, ids) end
  if shown then notify.offer(q, shown, waiter_text.peeks) end
end

-- Offers these messages to readers in the order in which they wait (3.1.7.2.2). Peeks get a copy; each reader that takes
-- messages uses one up. Readers of particular messages come first. `only`: the kind of readers that are asked, nil for all;
-- `behind`: only readers behind this member of q.waiters are asked.
function notify.offer(q, ids, only, behind)
  if #ids == 0 then return end
  local first = redis.call("ZRANGE", q.waiters, 0, notify.page - 1)
  if first[1] and waiter_text.filter(first[1]) then
    match_waiters.load()
    ids, first = match_waiters.offer(q, ids, only, behind), nil
  end
  notify.offer_any(q, ids, first, only)
end

-- Offers messages to the readers that take any. `first`: the first page of them, nil if it has to be read.
function notify.offer_any(q, ids, first, only)
  local at, notified, from = 1, {}, 0
  while at <= #ids and from < notify.most do
    local waiting = first or redis.call("ZRANGEBYSCORE", q.waiters, 0, "+inf", "LIMIT", from, notify.page)
    first = nil
    for n = 1, #waiting do
      local slot, kind, mode = waiter_text.parse(waiting[n])
      local peeks = kind == waiter_text.peeks
      if not only or kind == only then notified[#notified + 1] = waiting[n] end
      if peeks then
        notify.hand_copy(q, slot, ids[at])
        notify.one(slot, mode)
      elseif not only and notify.one(slot, mode) then
        -- Which message is meant: of two readers notified together, the one that waited longer gets the first.
        waiter_text.hand_message(slot, ids[at])
        at = at + 1
        if at > #ids then break end
      end
    end
    if #waiting < notify.page then break end
    from = from + notify.page
  end
  if #notified > 0 then
    redis.call("ZREM", q.waiters, unpack(notified))
  elseif redis.call("EXISTS", q.waiters) == 0 then
    -- Not earlier: most readers that were notified wait again before the next message comes.
    q.waiting = false
    queue.write(q)
  end
end

-- Hands a peek a copy of the message that satisfied it, since another reader may take the message first.
function notify.hand_copy(q, slot, id)
  local rec = redis.call("HGET", q.records, id)
  if not rec then return end
  local large = redis.call("HGET", q.records, "^" .. id) or ""
  local state_text = redis.call("HGET", q.states, id)
  local shown = state_text and message_state.shown(message_state.parse(state_text)) or ""
  waiter_text.hand_copy(slot, id, shown, rec, large)
end

-- Returns a list of the message that the reader of this call was notified of, or if that is gone of the first one in the
-- queue; an empty list if no other reader may have it now.
function notify.left(q)
  local id = waiter_text.notified_of()
  if not id or not redis.call("ZSCORE", q.available, id) then id = redis.call("ZRANGE", q.available, 0, 0)[1] end
  if id and q.locks_groups then
    group_lock.load()
    local rec = redis.call("HGET", q.records, id)
    if rec and group_lock.busy(q, rec) then return {} end
  end
  return { id }
end
