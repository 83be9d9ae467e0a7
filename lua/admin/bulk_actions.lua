--- require "core/context"
--- require "core/removal"
--- require "core/queue"
--- require lazy "core/record"
--- require lazy "admin/redrive"
--- require lazy "admin/rewrite"
--- require lazy "core/transfer"
--- require lazy "features/other_queues"
--- require lazy "features/trash"
--- used by bulk
-- The actions of bulk.lua. `entries`: the messages of this call, which are available or delayed (core/position). `value`: ARGV[6]
-- of bulk.lua; of the action due: the new time, in ms of broker time.
--
-- An action is a table of functions:
--
--   plan(q, entries, value)         runs before anything is written. Returns what apply takes as `plan`, and a status if the action
--                                   is refused. context.missing may name queues then
--   apply(q, entries, value, plan)  carries it out. Returns how many messages it has changed; nothing if it has changed all
--   is_done(entry, value)           is the message as the action would make it? Then bulk.lua leaves it out. nil if none can be
--
-- Each call of an action plans and applies one page of messages, perhaps an empty one. A new action is a row of bulk_actions.all,
-- with its value in ARGV[6] of bulk.lua, and a function in mqredis/operations/bulk.py, whose head says what else it takes
-- (tests/contract/test_arguments.py compares). Tests: tests/operator/test_bulk.py, test_trash.py.
local bulk_actions = {}

-- count -----------------------------------------------------------------------------------------------------------------

-- Is the plan, and the change, of an action that needs none.
function bulk_actions.nothing() end

-- delete ----------------------------------------------------------------------------------------------------------------

-- Asks for the queues that the traces of the messages need.
function bulk_actions.plan_delete(q, entries)
  removal.plan(q, entries, "queue_purged")
end

function bulk_actions.delete(q, entries)
  removal.delete(q, entries, "queue_purged")
end

-- trash, move, restore --------------------------------------------------------------------------------------------------

-- Returns the queue with this encoded name, which belongs to the family of q; nil and a status if it does not exist, unless
-- context.missing asks for it. `make`: create it if it does not exist.
function bulk_actions.plan_target(q, name, make)
  local target = other_queues.find_relative(queue.home(q), name, make)
  if not target and not context.missing then return nil, status.QUEUE_NOT_AVAILABLE end
  return target
end

-- Returns the subqueue ;trash as the plan.
function bulk_actions.plan_trash(q)
  return bulk_actions.plan_target(q, queue.join_name(queue.name(queue.home(q)), "trash"), true)
end

-- Returns the target as the plan. `value`: its encoded name.
function bulk_actions.plan_move(q, _, value)
  return bulk_actions.plan_target(q, value, false)
end

-- Moves entries to ;trash. `value`: for how many ms they can be restored.
function bulk_actions.trash(q, entries, value, target)
  bulk_actions.transfer(q, entries, target, trash.value(q, value))
end

function bulk_actions.move(q, entries, _, target)
  bulk_actions.transfer(q, entries, target, nil)
end

-- Moves entries to `target`. `trash_value`: of trash.value, if that is ;trash; else nil.
function bulk_actions.transfer(q, entries, target, trash_value)
  if target == q or #entries == 0 then return end
  transfer.move(q, target, entries, trash_value)
end

-- Returns as the plan where the messages go back to (trash.plan).
function bulk_actions.plan_restore(q, entries)
  return trash.plan(queue.home(q), entries)
end

-- `groups`: the plan, which has the entries.
function bulk_actions.restore(q, _, _, groups)
  trash.restore(q, groups)
end

-- redrive ---------------------------------------------------------------------------------------------------------------

-- Returns the queue of each message as the plan (redrive.plan). `value`: encoded name of the queue for all, "" for their own.
function bulk_actions.plan_redrive(q, entries, value)
  return redrive.plan(q, entries, value)
end

-- Sends the messages to their queues; one for which its queue has no room stays. Returns how many went.
function bulk_actions.redrive(q, entries, _, targets)
  return redrive.apply(q, entries, targets)
end

-- due, priority ---------------------------------------------------------------------------------------------------------

-- Does the message become available at `due`, or is it available already and `due` over?
function bulk_actions.has_time(entry, due)
  if entry.delayed_until then return entry.delayed_until == due end
  return due <= context.now
end

-- Has the messages become available at `due`, in ms of broker time.
function bulk_actions.change_time(q, entries, due)
  local recs, ids = { nil }, { nil }
  for n = 1, #entries do recs[n], ids[n] = rewrite.due(entries[n], due), entries[n].id end
  if recs[1] then rewrite.apply(q, entries, recs, ids) end
end

-- Does the message have this priority, a digit?
function bulk_actions.has_priority(entry, priority)
  return record.priority(entry.rec) == priority
end

-- Gives the messages this priority.
function bulk_actions.change_priority(q, entries, priority)
  local recs, ids = { nil }, { nil }
  for n = 1, #entries do recs[n], ids[n] = rewrite.priority(entries[n], priority), rewrite.id(entries[n], priority) end
  if recs[1] then rewrite.apply(q, entries, recs, ids) end
end

-- The table is made when the module is loaded, after its functions.
bulk_actions.all = {
  count = { plan = bulk_actions.nothing, apply = bulk_actions.nothing },
  delete = { plan = bulk_actions.plan_delete, apply = bulk_actions.delete },
  trash = { plan = bulk_actions.plan_trash, apply = bulk_actions.trash },
  move = { plan = bulk_actions.plan_move, apply = bulk_actions.move },
  restore = { plan = bulk_actions.plan_restore, apply = bulk_actions.restore },
  redrive = { plan = bulk_actions.plan_redrive, apply = bulk_actions.redrive },
  due = { plan = bulk_actions.nothing, apply = bulk_actions.change_time, is_done = bulk_actions.has_time },
  priority = { plan = bulk_actions.nothing, apply = bulk_actions.change_priority, is_done = bulk_actions.has_priority },
}
