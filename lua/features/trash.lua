--- require "core/context"
--- require "core/position"
--- require "core/removal"
--- require "core/queue"
--- require lazy "core/record"
--- require "core/timers"
--- require lazy "core/transfer"
--- require lazy "features/other_queues"
--- require lazy "features/retry"
--- used by admin/bulk_actions, core/transfer, features/features
-- Messages that an operator has moved to the subqueue ;trash, from where they can be restored for a time. Such a
-- message has the timer `trash` in q.timers; when it is due the message leaves as a purged one does.
--
-- A message that leaves ;trash in another way than by trash.restore loses the field in transfer.new_record (core/transfer), and its
-- timer by trash.leave. bulk.lua moves messages here (admin/bulk_actions).
--
-- Field `trash` of the head, which this module alone parses: "<ms>[ <subqueue>]", when that time ends in broker time,
-- and the encoded name of the subqueue that the message was in if it was not in the queue itself. Example: "1764000030000 poison".
--
-- Change together with: transfer.was_poison (core/transfer) asks for the subqueue; retry.renew_timers (features/retry) has a line
-- for each subqueue whose messages have timers. Tests: tests/operator/test_trash.py.
--
-- arrive, leave, plan_due and due are hooks: features/features says when they are called, and what `batch` and `places` are.
local trash = {}

-- Returns the text of the field. `subqueue`: an encoded name, or nil.
function trash.format(ends, subqueue)
  return string.format("%.0f", ends) .. (subqueue and " " .. subqueue or "")
end

-- Returns when the time ends, as text, and the encoded name of the subqueue or nothing.
function trash.parse(text)
  local ends, subqueue = string.match(text, "^(%d+) ?(.*)$")
  return ends, subqueue ~= "" and subqueue or nil
end

-- Returns the text of the field for messages of q that are to be kept in ;trash for so many ms.
function trash.value(q, ms)
  local _, subqueue = queue.split_name(queue.name(q))
  return trash.format(context.now + ms, subqueue)
end

-- Returns the encoded name of the subqueue that a message in ;trash was in; nil if it was in the queue itself, or does not
-- tell.
function trash.origin(rec)
  local text = record.is_special(rec) and record.field(rec, "trash")
  if not text then return end
  local _, subqueue = trash.parse(text)
  return subqueue
end

-- Decides where these entries of the subqueue ;trash of `home` go back to: returns a list of tables {target, entries}. The
-- target is nil, and context.missing names it, if KEYS lacks it.
function trash.plan(home, entries)
  local groups, by_name = { nil }, {} -- by_name: the entries of each group
  for n = 1, #entries do
    local subqueue = trash.origin(entries[n].rec)
    local name = subqueue and queue.join_name(queue.name(home), subqueue) or queue.name(home)
    if not by_name[name] then
      local target = other_queues.find_relative(home, name, true)
      by_name[name] = { nil }
      groups[#groups + 1] = { target = target, entries = by_name[name] }
    end
    by_name[name][#by_name[name] + 1] = entries[n]
  end
  return groups
end

-- Moves entries of q, the subqueue ;trash, back. `groups`: as trash.plan returned them.
function trash.restore(q, groups)
  for n = 1, #groups do
    local target, entries = groups[n].target, groups[n].entries
    transfer.move(q, target, entries)
    retry.renew_timers(target, entries)
  end
end

-- Sets the timers of messages that arrive in ;trash.
function trash.arrive(q, batch, places)
  for k = 1, #places do
    local ends = trash.parse(record.field(batch.records[places[k]], "trash"))
    redis.call("ZADD", q.timers, ends, timers.letters.trash .. batch.ids[places[k]])
    queue.set_timer(q, ends)
  end
end

-- Removes the timers of messages that leave.
function trash.leave(q, batch, places)
  timers.remove(q, timers.letters.trash, batch, places)
end

-- Returns the messages of timers that are due, and plans their traces.
function trash.plan_due(q, ids)
  local entries = position.read(q, ids)
  removal.plan(q, entries, "queue_purged")
  return entries
end

-- Deletes the messages that trash.plan_due has returned.
function trash.due(q, entries)
  for n = 1, #entries do entries[n].event = "expired" end -- features/trail
  removal.delete(q, entries, "queue_purged")
end

trash.hooks = { arrive = trash.arrive, leave = trash.leave, plan_due = trash.plan_due, due = trash.due }
