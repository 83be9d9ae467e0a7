--- require "lib/frame"
--- require "lib/queue"
--- require "lib/tx"
-- Reading the log of a transaction back, for whoever ends it.
local txlog = {}

-- Its operations in order: {op, queue, lid, target, why}.
function txlog.operations(t)
  local ops = {}
  for from = 1, t.count, 500 do
    local fields = {}
    for k = from, math.min(from + 499, t.count) do fields[#fields + 1] = t.id .. ":" .. k end
    local texts = redis.call("HMGET", KEYS[2], unpack(fields))
    for k = 1, #texts do
      if texts[k] then
        local op, name, lid, target, why = string.match(texts[k], "^(%S) (%S+) (%x+) ?(%S*) ?(.*)$")
        ops[#ops + 1] = { op = op, queue = name, lid = lid, target = target, why = why ~= "" and why or nil }
      end
    end
  end
  return ops
end

-- Forgets the transaction and its log.
function txlog.forget(t)
  redis.call("HDEL", KEYS[2], t.id)
  for from = 1, t.count, 500 do
    local fields = {}
    for k = from, math.min(from + 499, t.count) do fields[#fields + 1] = t.id .. ":" .. k end
    redis.call("HDEL", KEYS[2], unpack(fields))
  end
  frame.touch()
end

-- The queues of KEYS by encoded name, for scripts that get the queues of a whole transaction. A queue that does not
-- exist any more is named in `gone`.
function txlog.queues()
  local found, gone = {}, {}
  for n = 1, (#KEYS - 2) / 8 do
    local q = queue.open(n, 2)
    if q then
      found[queue.name(q)] = q
    else
      gone[string.match(KEYS[2 + (n - 1) * 8 + 1], ":q:([^:]+):q$")] = true
    end
  end
  for name, q in pairs(found) do
    local parent = string.match(name, "^(.-)%%3B")
    if parent then queue.under(q, found[parent]) end
  end
  return found, gone
end

-- The names of queues that the operations need and KEYS does not bring, as a list; empty if all are there.
function txlog.missing(ops, found, gone)
  local names, seen = {}, {}
  local function need(name)
    if name ~= "" and not found[name] and not gone[name] and not seen[name] then
      seen[name] = true
      names[#names + 1] = name
    end
  end
  for n = 1, #ops do
    need(ops[n].queue)
    need(ops[n].target)
    local parent = string.match(ops[n].queue, "^(.-)%%3B")
    if parent then need(parent) end
  end
  return names
end
