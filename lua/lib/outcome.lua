--- require "lib/frame"
--- require "lib/position"
--- require "lib/record"
--- require "lib/tx"
--- require "lib/release"
--- require "lib/transfer"
--- require lazy "lib/trace"
-- How a unit of work ends (3.1.4.4, 3.1.4.5), queue by queue; within a queue in the order of its operations.
local outcome = {}

-- The operations of each queue that still hold their message: {q, S = entries, R = .., X = .., M = {target = entries}}.
-- What was deleted meanwhile with its queue is passed over.
function outcome.gather(t, ops, queues)
  local order, byqueue = {}, {}
  for n = 1, #ops do
    local op = ops[n]
    local part = byqueue[op.queue]
    if not part and queues[op.queue] then
      part = { q = queues[op.queue], ops = {}, ids = {}, S = {}, R = {}, X = {}, M = {}, targets = {} }
      byqueue[op.queue] = part
      order[#order + 1] = part
    end
    if part then
      part.ops[#part.ops + 1] = op
      part.ids[#part.ids + 1] = op.lid
    end
  end
  for n = 1, #order do
    local part, held = order[n], {}
    local entries = position.read(part.q, part.ids)
    for k = 1, #entries do held[entries[k].lid] = entries[k] end
    for k = 1, #part.ops do
      local op = part.ops[k]
      local e = held[op.lid]
      if e and e.st and e.st.owner == t.id and e.st.kind ~= "-" then
        local list = part[op.op]
        e.why = op.why
        if op.op == "M" then
          if not list[op.target] then
            list[op.target] = {}
            part.targets[#part.targets + 1] = op.target
          end
          list = list[op.target]
        end
        list[#list + 1] = e
        held[op.lid] = nil
      end
    end
  end
  return order
end

-- Decide: may it end so? Else frame.missing names the queues that it takes.
function outcome.plan(order, commit)
  for n = 1, #order do
    local part = order[n]
    if commit then
      local traced = false
      for k = 1, #part.S do traced = traced or record.flag(part.S[k].rec, 1) end
      if traced then
        trace.load()
        trace.accepted(part.q, part.S, false)
        trace.expiring(part.q, part.S)
      end
      position.may_leave(part.q, part.R, "receive")
      position.may_leave(part.q, part.X, "receive_rejected")
      for _, entries in pairs(part.M) do release.plan(part.q, entries) end
    else
      release.plan(part.q, part.R)
      release.plan(part.q, part.X)
      for _, entries in pairs(part.M) do release.plan(part.q, entries) end
    end
  end
  return not frame.missing
end

-- Marks the first and the last message sent in the transaction (3.1.4.3).
function outcome.mark(ops, queues, order)
  local first, last
  for n = 1, #ops do
    if ops[n].op == "S" then
      first = first or ops[n]
      last = ops[n]
    end
  end
  if not first then return end
  outcome.flag(queues[first.queue], first.lid, 2, order)
  outcome.flag(queues[last.queue], last.lid, 4, order)
end

-- In the store, and in the entry that was read from it: a copy of it may be due at once.
function outcome.flag(q, lid, bit, order)
  local rec = q and redis.call("HGET", q.m, lid)
  if not rec then return end
  rec = record.set_flag(rec, bit)
  redis.call("HSET", q.m, lid, rec)
  for n = 1, #order do
    local sent = order[n].q == q and order[n].S or {}
    for k = 1, #sent do
      if sent[k].lid == lid then sent[k].rec = rec end
    end
  end
end

function outcome.commit(order, queues)
  for n = 1, #order do
    local part = order[n]
    outcome.appear(part.q, part.S)
    position.finish(part.q, part.R, "receive")
    position.finish(part.q, part.X, "receive_rejected")
    for k = 1, #part.targets do
      local target = part.targets[k]
      local entries = part.M[target]
      if queues[target] then
        transfer.move(part.q, queues[target], entries)
      else
        release.unlock(part.q, entries, false)
      end
    end
  end
end

-- What was sent is there now, and its sender may want to know.
function outcome.appear(q, entries)
  for n = 1, #entries do
    if record.flag(entries[n].rec, 1) then
      trace.load()
      trace.accepted(q, { entries[n] }, true)
    end
  end
  release.unlock(q, entries, false)
end

function outcome.abort(order)
  for n = 1, #order do
    local part = order[n]
    position.delete(part.q, part.S, "aborted")
    release.unlock(part.q, part.R, true)
    release.unlock(part.q, part.X, true)
    for k = 1, #part.targets do release.unlock(part.q, part.M[part.targets[k]], false) end
  end
end
