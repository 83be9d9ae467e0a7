--- require "core/context"
--- require "core/position"
--- require "core/record"
--- require "transactions/txlog"
--- require "core/release"
--- require "core/transfer"
--- require "transactions/outcome_plain"
--- require lazy "features/trace"
-- How a unit of work ends (3.1.4.4, 3.1.4.5), queue by queue; within a queue in the order of its operations.
local outcome = {}

-- The operations of a transaction (txlog.read) by queue: {q, ids, texts, plain}; then of what it sent the part and the
-- id of the first message, and of the last. What was deleted meanwhile with its queue is passed over, its part is
-- false. context.missing names the queues that it takes and KEYS does not bring.
function outcome.parts(texts, count, queues, gone)
  local order, known, byte, sub = { nil, nil }, {}, string.byte, string.sub
  local first, from, last, upto
  for n = 2, count + 1 do
    local text = texts[n]
    if text then
      local op = byte(text)
      local name, lid, target
      if op == outcome_plain.R or op == outcome_plain.S then
        name, lid = sub(text, 3, -18), sub(text, -16)
      else
        local _
        _, name, lid, target = txlog.parse(text)
        outcome.need(target, queues, gone)
      end
      local part = known[name]
      if part then
        local at = #part.ids + 1
        part.ids[at], part.texts[at] = lid, text
      elseif part == nil then
        local q = queues[name]
        part = q and { q = q, ids = { lid }, texts = { text }, plain = false } or false
        known[name], order[#order + 1] = part, part or nil
        if not q then outcome.need(name, queues, gone) end
        local stop = string.find(name, "%3B", 1, true)
        if stop then outcome.need(sub(name, 1, stop - 1), queues, gone) end
      end
      if op == outcome_plain.S then
        if first == nil then first, from = part, lid end
        last, upto = part, lid
      end
    end
  end
  return order, first, from, last, upto
end

function outcome.need(name, queues, gone)
  if name ~= "" and not queues[name] and not gone[name] then context.require(name) end
end

-- Decide: may it end so? Reads what is held. Else context.missing names the queues that it takes.
function outcome.plan(t, order, commit)
  for n = 1, #order do
    local part = order[n]
    part.plain = outcome_plain.read(t, part, commit)
    if not part.plain then
      outcome.gather(t, part)
      outcome.judge(part, commit)
    end
  end
  return not context.missing
end

-- The operations of a part that still hold their message: S, R, X = entries, M = {target = entries}.
function outcome.gather(t, part)
  local held, entries = {}, position.read(part.q, part.ids)
  part.S, part.R, part.X, part.M, part.targets = {}, {}, {}, {}, {}
  for k = 1, #entries do held[entries[k].lid] = entries[k] end
  for k = 1, #part.ids do
    local e = held[part.ids[k]]
    if e and e.st and e.st.owner == t.id and e.st.kind ~= "-" then
      local op, _, lid, target, why = txlog.parse(part.texts[k])
      local list = part[op]
      e.why = why ~= "" and why or nil
      if op == "M" then
        if not list[target] then
          list[target] = {}
          part.targets[#part.targets + 1] = target
        end
        list = list[target]
      end
      list[#list + 1] = e
      held[lid] = nil
    end
  end
end

function outcome.judge(part, commit)
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
  else
    release.plan(part.q, part.R)
    release.plan(part.q, part.X)
  end
  for _, entries in pairs(part.M) do release.plan(part.q, entries) end
end

-- Marks the first and the last message sent in the transaction (3.1.4.3), as outcome.parts names them.
function outcome.mark(first, from, last, upto)
  if first == nil then return end
  if first == last and from == upto then return outcome.flag(first, from, 6) end
  outcome.flag(first, from, 2)
  outcome.flag(last, upto, 4)
end

-- In the store, and in the entry that was read from it: a copy of it may be due at once.
function outcome.flag(part, lid, bits)
  if not part then return end
  if part.plain then return outcome_plain.mark(part, lid, bits) end
  local rec = redis.call("HGET", part.q.m, lid)
  if not rec then return end
  if bits ~= 4 then rec = record.set_flag(rec, 2) end
  if bits ~= 2 then rec = record.set_flag(rec, 4) end
  redis.call("HSET", part.q.m, lid, rec)
  for n = 1, #part.S do
    if part.S[n].lid == lid then part.S[n].rec = rec end
  end
end

function outcome.commit(order, queues)
  for n = 1, #order do
    local part = order[n]
    if part.plain then outcome_plain.finish(part, true) else outcome.apply(part, queues) end
  end
end

function outcome.apply(part, queues)
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
    if part.plain then outcome_plain.finish(part, false) else outcome.undo(part) end
  end
end

function outcome.undo(part)
  position.delete(part.q, part.S, "aborted")
  release.unlock(part.q, part.R, true)
  release.unlock(part.q, part.X, true)
  for k = 1, #part.targets do release.unlock(part.q, part.M[part.targets[k]], false) end
end
