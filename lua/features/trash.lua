--- require "core/chunked"
--- require "core/position"
--- require "core/queue"
--- require "core/record"
-- Messages that an operator has moved to the subqueue ;trash for a time (key Z of the head: when that time ends, in ms of
-- broker time): timers "z"id. When the time ends, such a message leaves as a purged one does.
local trash = {}

function trash.arrive(q, batch, places)
  for k = 1, #places do
    local at = record.field(batch.records[places[k]], "Z")
    redis.call("ZADD", q.t, at, "z" .. batch.ids[places[k]])
    queue.set_timer(q, at)
  end
end

-- Messages that are locked have no timers.
function trash.leave(q, batch, places)
  local members = { nil }
  for k = 1, #places do
    if not (batch.held and batch.held[places[k]]) then members[#members + 1] = "z" .. batch.ids[places[k]] end
  end
  chunked.run("ZREM", q.t, members)
end

function trash.plan_due(q, ids)
  local entries = position.read(q, ids)
  position.may_leave(q, entries, "queue_purged")
  return entries
end

function trash.due(q, entries)
  for n = 1, #entries do entries[n].event = "expired" end -- features/trail
  position.delete(q, entries, "queue_purged")
end

trash.hooks = { arrive = trash.arrive, leave = trash.leave, plan_due = trash.plan_due, due = trash.due }
