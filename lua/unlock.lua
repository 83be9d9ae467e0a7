-- End the locks of readers, as an operator decides: the messages are given back or rejected. A reader that had one of these
-- locks is refused from then on, since its fence is no longer the one of a lock.
-- docs/operating.md
--
-- CALLERS unlock in mqredis/commands/bulk.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue; queues of their dead letters, copies and acknowledgements
-- KEYS the key of a token, if ARGV[3] is not "" (admin/operator)
-- ARGV[3] token  as in admin/operator
-- ARGV[4] entry  as in admin/operator
-- ARGV[5] given  "a": given back after a failed attempt; "j" and the reason: rejected (core/settle)
-- ARGV[6+] id  lookup ids
-- RETURNS OK locks ended, messages that a transaction or a pipeline holds, messages that are not locked or not there
-- RETURNS QUEUE_NOT_FOUND
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require lazy "core/message_state"
--- require "core/queue"
--- require "core/position"
--- require "core/settle"
--- require "core/store"
--- require "core/timers"
--- require "admin/operator"
--- require "waiting/waiters"
-- Change together with: mqredis/operations/force.py, which makes ARGV[5]; core/settle, which carries it out.
-- Tests: tests/operator/test_force.py.
local given, lookup_ids = ARGV[5], operator.lookup_ids(6)
local reply = context.open()
if reply then return reply end
reply = operator.repeated()
if reply then return reply end
local q = queue.open(1)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end
queue.open_parent(q)
timers.serve(q)
if context.missing then return waiters.finish(q, context.missing) end

-- decide -----------------------------------------------------------------------------------------
-- settlements: the runs that core/settle takes, one for each lock; ended: how many these are; otherwise_locked: messages that a
-- transaction or a claim holds, which keeps them.
local settlements, ended, otherwise_locked = { nil }, 0, 0
local entries = position.read(q, lookup_ids)
for n = 1, #entries do
  local state, id = entries[n].state, entries[n].id
  if state and message_state.is_reader_lock(state) then
    context.append(settlements, given, state.fence, id)
    ended = ended + 1
  elseif not redis.call("ZSCORE", q.available, id) and not timers.delayed_until(q, id) then
    otherwise_locked = otherwise_locked + 1
  end
end
operator.plan()
if context.missing then return waiters.finish(q, context.missing) end

-- apply ------------------------------------------------------------------------------------------
settle.all(q, settlements, 1, 0) -- it decides before it writes, too
if context.missing then return waiters.finish(q, context.missing) end
operator.log(ended, true)
store.save(q)
reply = operator.close(context.reply(status.OK, ended, otherwise_locked, #lookup_ids - ended - otherwise_locked))
waiters.notify(q)
return reply
