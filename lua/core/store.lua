--- require "core/chunked"
--- require "core/context"
--- require "core/queue"
--- require lazy "core/timers"
--- used by admin/rewrite, admin/sweep, bulk, claims/claim_pages, claims/fill, commit, core/enqueue and 22 more
-- The store: every write to the messages of a queue and to its counters. What has to be written is decided elsewhere;
-- tests/contract/test_writers.py proves that no other module writes these keys.
--
--   q.available  zset  ids of available messages, all with score 0
--   q.locked     zset  ids of locked messages, score: deadline in ms
--   q.records    hash  id -> core/record, "^"id -> large body
--   q.states     hash  id -> core/message_state
--
-- Arguments are columns: ids[n] and records[n] belong together. Pairs are flat lists: id, text, id, text, ...
local store = {}

-- Adds messages, `bytes` in all, that are in no list yet. `larges`: bodies that are kept apart, by place; or nothing.
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

function store.set_record(q, id, text)
  redis.call("HSET", q.records, id, text)
end

-- Messages that are in no list become available. Readers that wait are notified of them when the script ends
-- (waiting/waiters); of `announced` alone if these are given.
function store.make_available(q, ids, announced)
  if q.waiting then store.announce(q, announced or ids) end
  if #ids == 1 then
    redis.call("ZADD", q.available, "0", ids[1])
  elseif ids[1] then
    local places = { nil, nil }
    for n = 1, #ids do places[n * 2 - 1], places[n * 2] = "0", ids[n] end
    chunked.scores(q.available, places)
  end
end

function store.announce(q, ids)
  local arrived = q.arrived or { nil }
  for n = 1, #ids do arrived[#arrived + 1] = ids[n] end
  q.arrived = arrived
end

-- Messages are not available any more. Returns how many of them were.
function store.withdraw(q, ids)
  if #ids == 1 then return redis.call("ZREM", q.available, ids[1]) end
  return chunked.run("ZREM", q.available, ids)
end

-- The first `count` available messages are not available any more.
function store.withdraw_first(q, count)
  redis.call("ZREMRANGEBYRANK", q.available, "0", count - 1)
end

-- Messages that are in no list are locked until `deadline`, in ms as text, with these pairs of states.
function store.lock(q, ids, states, deadline)
  store.lock_without_lease(q, ids, states, deadline)
  queue.set_timer(q, deadline)
end

-- Locks messages of a claim, which never lapse: `deadline` is a score behind every moment (claims/claim).
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

-- Locked messages are in no list any more. `states`: pairs of those that keep one; `stateless`: ids of the others.
function store.unlock(q, ids, states, stateless)
  chunked.run("ZREM", q.locked, ids)
  store.set_states(q, states)
  chunked.run("HDEL", q.states, stateless)
end

-- A lock lasts until this moment, in ms.
function store.extend(q, id, deadline)
  redis.call("ZADD", q.locked, deadline, id)
end

-- Pairs of states of messages that are not locked.
function store.set_states(q, states)
  if not states[1] then return end
  q.has_states, q.changed = true, true
  chunked.run("HSET", q.states, states)
end

-- Messages go that were counted out before. `fields`: those of their records and large bodies. `available`, `locked` and
-- `stateful`: ids of those that are available, locked, or have a state; nil if there are none.
function store.remove(q, fields, available, locked, stateful)
  if available then chunked.run("ZREM", q.available, available) end
  if locked then chunked.run("ZREM", q.locked, locked) end
  if stateful then chunked.run("HDEL", q.states, stateful) end
  chunked.run("HDEL", q.records, fields)
end

-- Locked messages stay locked, with these pairs of states.
function store.change_locks(q, states)
  redis.call("HSET", q.states, unpack(states))
end

-- All messages go but these, which are locked: pairs of their records and large bodies, and of their states. Timers and the
-- index go, too. Deleting keys takes no time of the server, unlike the deletion of many fields.
function store.drop_all_but(q, records, states)
  redis.call("UNLINK", q.available, q.records, q.states, q.timers, q.index)
  if records[1] then redis.call("HSET", q.records, unpack(records)) end
  if states[1] then redis.call("HSET", q.states, unpack(states)) end
end

-- Deletes all keys of a queue but its waiting readers, which may have to be notified first.
function store.delete_queue(q)
  redis.call("UNLINK", q.key, q.available, q.locked, q.records, q.states, q.timers, q.index)
end

-- Counts messages in (positive) or out (negative), in the queue, in the parent whose quota it shares, and in the manager,
-- which does not count its log of actions.
-- Before, the queue's statistics are brought up to date, so that each bucket has what was counted in its time (core/statistics).
function store.count(q, count, bytes)
  if count == 0 then return end
  if q.due <= context.now then store.update_statistics(q) end
  q.messages, q.bytes, q.changed = q.messages + count, q.bytes + bytes, true
  if count < 0 then q.gone, q.has_states = string.format("%d", q.gone - count), q.has_states and q.messages > 0 end
  if not q.outside then context.messages, context.bytes = context.messages + count, context.bytes + bytes end
  if q.parent and not q.apart then
    queue.read_subqueue_totals(q.parent)
    q.parent.sub_messages = q.parent.sub_messages + count
    q.parent.sub_bytes = q.parent.sub_bytes + bytes
  end
end

-- Counts in one of the queue's further counters: n_<reason> messages that left for this reason, n_retried those that came back
-- for another attempt.
function store.count_event(q, counter, count)
  if queue.is_due(q) then store.update_statistics(q) end
  redis.call("HINCRBY", q.key, counter, count)
end

function store.update_statistics(q)
  timers.load()
  timers.update_statistics(q)
end

-- Messages that were counted in and go without ever having been visible do not count as gone.
function store.uncount_gone(q, count)
  q.gone = string.format("%d", q.gone - count)
end

-- Has the counters of a queue, and of those beside it that the script touched (features/other_queues), written when the
-- script ends.
function store.save(q)
  store.save_one(q)
  if context.sides then store.save_sides() end
end

-- As store.save, for a script that has no queue of its own.
function store.save_sides()
  for _, side in ipairs(context.sides or {}) do store.save_one(side) end
end

function store.save_one(q)
  if q.parent then
    if q.changed and q.parent.sub_messages then
      redis.call("HSET", q.parent.key, "sub_messages", q.parent.sub_messages, "sub_bytes", q.parent.sub_bytes)
    end
    store.save_one(q.parent)
  end
  if q.changed then queue.save(q) end
end
