--- require "core/context"
--- require "core/position"
--- require "core/queue"
--- require lazy "core/record"
--- require "core/timers"
--- require lazy "features/trace"
--- used by features/features
-- Messages that the broker holds back, for as many ms as the field `delay` of the head says. Until then such a message
-- is in no list: it has its record, and its timer `delay` in q.timers. The functions are hooks: features/features says when they
-- are called, and what `batch` and `places` are.
--
-- Change together with: who lists or removes messages that are in no list reads these timers: admin/scheduled, admin/sweep,
-- admin/audit for the checks `positions` and `timers` of the doctor, message_list.lua, mqredis/spark/unavailable.py. admin/rewrite
-- gives a message another delay. Tests: tests/msmq/test_delivery.py, test_due.py, tests/property/test_moment.py.
local delivery_delay = {}

-- Holds messages back whose delay is not over, and sets their timers. One that has expired has a fate already.
function delivery_delay.arrive(q, batch, places)
  for k = 1, #places do
    local place = places[k]
    local due = record.due(batch.records[place])
    if due > context.now and not batch.fates[place] then
      batch.fates[place] = "delayed"
      redis.call("ZADD", q.timers, string.format("%d", due), timers.letters.delay .. batch.ids[place])
      queue.set_arrival(q, due)
    end
  end
end

-- Removes the timers of messages that leave before they are due.
function delivery_delay.leave(q, batch, places)
  timers.remove(q, timers.letters.delay, batch, places)
end

-- Returns the messages of timers that are due as entries, and plans what those of them leave behind that have expired meanwhile.
function delivery_delay.plan_due(q, ids)
  local entries = position.read(q, ids)
  trace.expiring(q, entries)
  return entries
end

-- Makes the messages available that delivery_delay.plan_due has returned.
function delivery_delay.due(q, entries)
  position.arrive_entries(q, entries)
end

delivery_delay.hooks = {
  arrive = delivery_delay.arrive,
  leave = delivery_delay.leave,
  plan_due = delivery_delay.plan_due,
  due = delivery_delay.due,
}
