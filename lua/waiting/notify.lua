--- require lazy "waiting/match_waiters"
--- require lazy "features/group_lock"
--- require lazy "matching/index"
--- require "core/context"
--- require lazy "core/message_state"
--- require "core/queue"
--- require "core/timers"
--- require lazy "waiting/waiter_text"
--- used by cancel, queue_delete, queue_update, stop_waiting, waiting/handoff, waiting/match_waiters, waiting/waiters
-- Notifies readers that wait (waiting/waiters), and offers them the messages that became available.
--
-- Notifications are the last writes of a script, and may fail: a reader that misses one asks again some seconds later
-- (docs/decisions/waiting.md).
--
-- Change together with: ManagerKeys.wake_key and channel in mqredis/keys.py name the same key and channel
-- (tests/contract/test_constants.py compares); mqredis/drivers/waiting/mode.py chooses the mode, and
-- mqredis/drivers/waiting/table.py reads what is published: "sadd", or the text of waiting/handoff. Tests:
-- tests/conformance/test_wait.py, tests/drivers/test_waits.py for the modes, tests/matching/test_notified_readers.py for filters.
--
-- Readers with a filter have scores below 0 in q.waiters, so they stand in front of all others. In this module a `member` is one
-- of q.waiters (waiting/waiter_text), which stands for a reader.
--
-- page: readers that one command reads; most: readers that notify.offer_any looks at, about.
local notify = { page = 64, most = 1000 }

-- One reader ------------------------------------------------------------------------------------------------------------

-- Returns the wake key of a slot, "mq:{manager}:wake:<slot>", and its channel in this database. The key is computed, not
-- declared in KEYS: it never exists between two commands.
function notify.channel(slot, database)
  local key = context.prefix() .. "wake:" .. slot
  return key, "__keyspace@" .. database .. "__:" .. key
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
  if context.listeners(channel) == 0 then return false end
  notify.wake(key)
  return true
end

-- Notifies all readers, since the queue goes away or may not be read any more.
function notify.all(q)
  local members = redis.call("ZRANGE", q.waiters, 0, -1)
  for n = 1, #members do
    local slot, _, mode = waiter_text.parse(members[n])
    notify.one(slot, mode)
  end
end

-- Messages --------------------------------------------------------------------------------------------------------------

-- Offers what became available in this call. Four fields of q say what there is to do; queue.begin_call resets them for the next
-- call:
--
--   q.arrived  ids that all readers are offered: of messages that were made available (store.announce), of the next message of a
--              group that is not busy any more (features/group_lock), and of the message of a reader that was notified and does
--              not take it (waiters.offer_again, stop_waiting)
--   q.arrived_busy  ids of messages of busy groups, which no reader may take yet: only peeks are offered them
--              (features.arrive_by_fate)
--   q.freed    ids of groups that are not busy any more (group_lock.note_freed): readers of particular messages are offered more of
--              their messages than the one in q.arrived
--   q.sooner   when a timer is due that was set (queue.set_arrival). A reader is told if it is the first one of the queue. q.due
--              does not say that: it may be the time of a timer that is gone, or the end of a bucket of the statistics
function notify.serve(q)
  -- A queue may be the call's own, the parent of another one, and among context.sides: it is served once.
  local ids, busy_ids, freed, sooner = q.arrived or {}, q.arrived_busy, q.freed, q.sooner
  q.arrived, q.arrived_busy, q.freed, q.sooner = false, false, false, false
  if #ids > 0 then notify.offer(q, ids) end
  if busy_ids then notify.offer(q, busy_ids, waiter_text.peeks) end
  if freed then notify.offer_groups(q, freed, ids) end
  if sooner and sooner <= context.now + timers.next(q) then notify.look(q) end
end

-- Lets one reader look at the queue again, so that it knows the timer that comes next. It stays registered.
function notify.look(q)
  local waiting = redis.call("ZRANGE", q.waiters, 0, notify.page - 1)
  for n = 1, #waiting do
    local slot, _, mode = waiter_text.parse(waiting[n])
    if notify.one(slot, mode) then return end
  end
end

-- Offers these messages to readers in the order in which they wait (3.1.7.2.2). Peeks get a copy; each reader that takes
-- messages uses one up. Readers of particular messages come first. `only`: waiter_text.peeks if only peeks are asked, nil for all
-- readers; `behind`: of the readers of particular messages only those behind this member of q.waiters are asked, nil for all.
function notify.offer(q, ids, only, behind)
  if #ids == 0 then return end
  local first_page = redis.call("ZRANGE", q.waiters, 0, notify.page - 1)
  if first_page[1] and waiter_text.filter(first_page[1]) then
    ids, first_page = match_waiters.offer(q, ids, only, behind), nil
  end
  notify.offer_any(q, ids, first_page, only)
end

-- Offers the message of the group whose turn it is to a reader that takes any message, without a cursor: it did not arrive now.
function notify.offer_turn(q)
  local ids = notify.in_turn(q)
  if ids[1] then notify.offer_any(q, ids, nil, waiter_text.takes) end
end

-- Returns a list with the id of the message whose turn it is in a queue whose groups take turns. It is empty if no message may be
-- taken.
function notify.in_turn(q)
  local next_entry = group_lock.next_in_turn(q, 1)[1]
  return { next_entry and next_entry.id }
end

-- Offers the messages of these groups to readers of particular messages, but for those that were offered already, and for groups
-- that this script has made busy again.
function notify.offer_groups(q, group_ids, offered)
  local first = redis.call("ZRANGE", q.waiters, 0, 0)[1]
  if not first or not waiter_text.filter(first) then return end
  local is_offered, others = {}, { nil }
  for n = 1, #offered do is_offered[offered[n]] = true end
  for n = 1, #group_ids do
    if not group_lock.holder(q, group_ids[n]) then
      local ids = index.range(q, index.letters.group_id, group_ids[n], "", match_waiters.most_members)
      for k = 1, #ids do
        if not is_offered[ids[k]] then others[#others + 1] = ids[k] end
      end
    end
  end
  if others[1] then match_waiters.offer(q, others) end
end

-- Offers messages to the readers that take any. `first_page`: the first page of them, nil if it has to be read. `only` as of
-- notify.offer.
function notify.offer_any(q, ids, first_page, only)
  -- at: place in `ids` of the message that the next reader gets; from: where the page begins; notified: members that are asked.
  local at, notified, from = 1, {}, 0
  while at <= #ids and from < notify.most do
    local members = first_page or redis.call("ZRANGEBYSCORE", q.waiters, 0, "+inf", "LIMIT", from, notify.page)
    first_page = nil
    for n = 1, #members do
      local slot, kind, mode = waiter_text.parse(members[n])
      local is_asked = not only or kind == only
      if is_asked then notified[#notified + 1] = members[n] end
      if kind == waiter_text.peeks and is_asked then
        notify.hand_copy(q, slot, ids[at])
        notify.one(slot, mode)
      elseif is_asked and notify.one(slot, mode) then
        -- Which message is meant: of two readers notified together, the one that waited longer gets the first.
        waiter_text.hand_message(slot, ids[at])
        at = at + 1
        if at > #ids then break end
      end
    end
    if #members < notify.page then break end
    from = from + notify.page
  end
  if #notified > 0 then
    redis.call("ZREM", q.waiters, unpack(notified))
  elseif redis.call("EXISTS", q.waiters) == 0 then
    -- Not earlier: most readers that were notified wait again before the next message comes.
    q.waiting = false
    queue.write(q) -- not queue.save: mostly context.close has run already (waiters.finish)
  end
end

-- Hands a peek a copy of the message that satisfied it, since another reader may take the message first.
function notify.hand_copy(q, slot, id)
  local rec = redis.call("HGET", q.records, id)
  if not rec then return end
  local large_body = redis.call("HGET", q.records, "^" .. id) or ""
  local state_text = redis.call("HGET", q.states, id)
  local shown = state_text and message_state.shown(message_state.parse(state_text)) or ""
  waiter_text.hand_copy(slot, id, shown, rec, large_body)
end

-- Returns a list with one id, for another reader: that of the message that the reader of this call was notified of. If no reader
-- may take that message now, it is the first one in the queue; where groups take turns, the one whose turn it is. The list is empty
-- if there is none.
function notify.left(q)
  local id = waiter_text.notified_of()
  if id and not redis.call("ZSCORE", q.available, id) then id = nil end
  if not q.locks_groups then return { id or redis.call("ZRANGE", q.available, 0, 0)[1] } end
  local rec = id and redis.call("HGET", q.records, id)
  if rec and not group_lock.busy(q, rec) then return { id } end
  return notify.in_turn(q)
end
