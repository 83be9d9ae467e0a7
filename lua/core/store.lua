--- require "core/chunked"
--- require "core/context"
--- require "core/queue"
--- require lazy "core/timers"
--- used by 29 files: 9 scripts, 4 in admin, 2 in claims, 7 in core, 4 in features, transactions/commit, 2 in waiting
-- The only module that writes the messages of a queue and its counters (tests/contract/test_writers.py). It decides nothing:
-- its callers, most of all core/position, know what state each message is in and call the functions that fit it.
--
--   q.available  zset  ids of available messages, all with score 0
--   q.locked     zset  ids of locked messages, score: deadline in ms
--   q.records    hash  id -> core/record, "^"id -> large body
--   q.states     hash  id -> core/message_state
--
-- A message is in q.available, in q.locked, or in neither while a script changes its state; its record stays all the time.
-- What is counted and what is stored must agree: who calls store.add has the messages counted there, who calls store.remove
-- has called store.count before. Modules of features write q.timers, q.index and q.key themselves; the modules in
-- EXCEPTIONS of tests/contract/test_writers.py write here, too, for the reasons given there. The send path runs through here:
-- tests/contract/test_send_path.py and test_cost.py limit its lines and commands.
--
-- Lists are columns: ids[n] and records[n] belong to one message. Pairs are flat lists: id, text, id, text, ...
local store = {}

-- Stores and counts new messages, `bytes` in all. They are in no list yet. `larges`: large bodies by place; nil if there are
-- none.
function store.add(q, ids, records, larges, bytes)
  store.count(q, #ids, bytes)
  if #ids == 1 and not larges then return redis.call("HSET", q.records, ids[1], records[1]) end
  local fields, size = { nil, nil }, 0
  for n = 1, #ids do
    fields[size + 1], fields[size + 2] = ids[n], records[n]
    size = size + 2
    if larges and larges[n] then
      fields[size + 1], fields[size + 2] = "^" .. ids[n], larges[n]
      size = size + 2
    end
  end
  chunked.fields(q.records, fields)
end

-- Replaces the record of a message. Its size must be the same, or else be counted.
function store.set_record(q, id, text)
  redis.call("HSET", q.records, id, text)
end

-- Makes messages that are in no list available. Readers that wait are notified of them when the script ends
-- (waiting/waiters); only of `announced` if that is given.
function store.make_available(q, ids, announced)
  if q.waiting then store.announce(q, announced or ids) end
  if #ids == 1 then
    redis.call("ZADD", q.available, "0", ids[1])
  else
    chunked.add(q.available, ids)
  end
end

-- Notes of which messages waiting readers are notified.
function store.announce(q, ids)
  local arrived = q.arrived or { nil }
  for n = 1, #ids do arrived[#arrived + 1] = ids[n] end
  q.arrived = arrived
end

-- Takes messages out of q.available; those that are not in it are passed over.
function store.withdraw(q, ids)
  if #ids == 1 then
    redis.call("ZREM", q.available, ids[1])
  else
    chunked.run("ZREM", q.available, ids)
  end
end

-- Takes the first `count` messages, one at least, out of q.available.
function store.withdraw_first(q, count)
  redis.call("ZREMRANGEBYRANK", q.available, "0", count - 1)
end

-- Locks messages that are in no list until `deadline`, in ms as text. `states`: pairs.
function store.lock(q, ids, states, deadline)
  store.lock_without_lease(q, ids, states, deadline)
  queue.set_timer(q, deadline)
end

-- Locks messages without setting a timer, for claims, whose locks never lapse: `deadline` is a score that is later than every
-- time (claims/claims).
function store.lock_without_lease(q, ids, states, deadline)
  if #ids == 1 then
    redis.call("ZADD", q.locked, deadline, ids[1])
    redis.call("HSET", q.states, ids[1], states[2])
  else
    local scores = { nil, nil }
    for n = 1, #ids do scores[n * 2 - 1], scores[n * 2] = deadline, ids[n] end
    chunked.scores(q.locked, scores)
    chunked.fields(q.states, states)
  end
end

-- Takes messages out of q.locked. `states`: pairs of those that keep a state; `stateless`: ids of the others.
function store.unlock(q, ids, states, stateless)
  chunked.run("ZREM", q.locked, ids)
  store.set_states(q, states)
  chunked.run("HDEL", q.states, stateless)
end

-- Sets the deadline of a lock, in ms.
function store.extend(q, id, deadline)
  redis.call("ZADD", q.locked, deadline, id)
end

-- Writes states of messages that are not locked. `states`: pairs.
function store.set_states(q, states)
  if not states[1] then return end
  q.has_states, q.changed = true, true
  chunked.run("HSET", q.states, states)
end

-- Removes messages that were counted out before. `fields`: the fields of their records and large bodies. `available`, `locked`,
-- `stateful`: ids of those that are available, locked, or have a state; nil if there are none.
function store.remove(q, fields, available, locked, stateful)
  if available then chunked.run("ZREM", q.available, available) end
  if locked then chunked.run("ZREM", q.locked, locked) end
  if stateful then chunked.run("HDEL", q.states, stateful) end
  chunked.run("HDEL", q.records, fields)
end

-- Writes states of messages that stay locked. `states`: pairs.
function store.change_locks(q, states)
  chunked.run("HSET", q.states, states)
end

-- Removes all messages but some locked ones, with the index. `records`: pairs of the records and large bodies that stay;
-- `states`: pairs of their states. Redis frees the removed keys in the background, unlike many removed fields.
function store.drop_all_but(q, records, states)
  redis.call("UNLINK", q.available, q.records, q.states, q.index)
  chunked.run("HSET", q.records, records)
  chunked.run("HSET", q.states, states)
end

-- Deletes all keys of a queue but `waiters`, since these readers may have to be notified first.
function store.delete_queue(q)
  redis.call("UNLINK", q.key, q.available, q.locked, q.records, q.states, q.timers, q.index)
end

-- Counts messages that come (positive) or go (negative): in the queue, in the parent whose quota it shares, and in the manager,
-- which does not count its log of actions. The queue's statistics are brought up to date first, so that what is counted is in
-- the right bucket (core/statistics).
function store.count(q, count, bytes)
  if count == 0 then return end
  if q.due <= context.now then timers.update_statistics(q) end
  q.messages, q.bytes, q.changed = q.messages + count, q.bytes + bytes, true
  if count < 0 then q.gone, q.has_states = string.format("%d", q.gone - count), q.has_states and q.messages > 0 end
  if not q.exempt then context.messages, context.bytes = context.messages + count, context.bytes + bytes end
  if q.parent and not q.has_own_quota then store.count_in_parent(q.parent, count, bytes) end
end

-- Counts messages of a subqueue in the parent whose quota it shares.
function store.count_in_parent(parent, count, bytes)
  queue.read_subqueue_totals(parent)
  parent.sub_messages, parent.sub_bytes = parent.sub_messages + count, parent.sub_bytes + bytes
end

-- Adds to a further counter of the queue: one of removal.counters, how many left for a reason, or "n_retried", how many came back
-- for another attempt (core/release, features/retry and transactions/commit count these, each for its own messages).
function store.count_event(q, counter, count)
  if queue.is_due(q) then timers.update_statistics(q) end
  redis.call("HINCRBY", q.key, counter, count)
end

-- Takes back that messages were counted as gone: those of an aborted transaction were never visible.
function store.uncount_gone(q, count)
  q.gone = string.format("%d", q.gone - count)
end

-- Has context.close write the header of a queue, and those of all other queues that the script has opened
-- (features/other_queues).
function store.save(q)
  store.save_one(q)
  if context.sides then store.save_sides() end
end

-- Does so for the other queues alone.
function store.save_sides()
  for _, side in pairs(context.sides or {}) do store.save_one(side) end
end

-- Does so for a queue and its parent.
function store.save_one(q)
  if q.parent then
    if q.changed and q.parent.sub_messages then
      redis.call("HSET", q.parent.key, "sub_messages", q.parent.sub_messages, "sub_bytes", q.parent.sub_bytes)
    end
    store.save_one(q.parent)
  end
  if q.changed then queue.save(q) end
end
