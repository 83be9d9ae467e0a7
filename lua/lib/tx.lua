--- require "lib/frame"
--- require "lib/queue"
-- The log of a transaction (3.1.1.13, 3.1.1.14) in the hash txs:
--   "<id>"      deadline_ms fence count session
--   "<id>:<k>"  op queue lid [target]     op: S sent, R received, X received and rejected, M moved
-- Its messages are Locked with the transaction as owner, so a queue can undo its own part alone (lib/due).
local tx = { most = 1000 }

-- The open transaction, or nothing and a status. A lapsed one counts as gone. A fence "+<lease ms>" begins it with this
-- operation: nothing is written before tx.add.
function tx.open(id, fence)
  local text = redis.call("HGET", KEYS[3], id)
  if string.sub(fence, 1, 1) == "+" then
    if text then return nil, status.TRANSACTION_SEQUENCE end
    return { id = id, deadline = string.format("%.0f", frame.now + tonumber(fence)), count = 0,
      fence = string.format("%.0f", frame.history + 1), session = string.match(ARGV[1], "^%d+") }
  end
  if not text then return nil, status.TRANSACTION_SEQUENCE end
  local deadline, granted, count, session = string.match(text, "^(%d+) (%d+) (%d+) (%S+)$")
  if granted ~= fence then return nil, status.TRANSACTION_SEQUENCE end
  if tonumber(deadline) <= frame.now then return nil, status.TRANSACTION_SEQUENCE end
  return { id = id, deadline = deadline, fence = granted, count = tonumber(count), session = session }
end

function tx.save(t)
  redis.call("HSET", KEYS[3], t.id, t.deadline .. " " .. t.fence .. " " .. t.count .. " " .. t.session)
end

-- Appends one operation for each id. Room was checked by the caller.
function tx.add(t, q, op, ids, target)
  local name, args = queue.name(q), {}
  for n = 1, #ids do
    t.count = t.count + 1
    args[#args + 1] = t.id .. ":" .. t.count
    args[#args + 1] = op .. " " .. name .. " " .. ids[n] .. (target and " " .. target or "")
  end
  redis.call("HSET", KEYS[3], unpack(args))
  tx.save(t)
end

-- Its operations in order: {op, queue, lid, target}.
function tx.operations(t)
  local ops = {}
  for from = 1, t.count, 500 do
    local fields = {}
    for k = from, math.min(from + 499, t.count) do fields[#fields + 1] = t.id .. ":" .. k end
    local texts = redis.call("HMGET", KEYS[3], unpack(fields))
    for k = 1, #texts do
      if texts[k] then
        local op, name, lid, target = string.match(texts[k], "^(%S) (%S+) (%x+) ?(%S*)$")
        ops[#ops + 1] = { op = op, queue = name, lid = lid, target = target }
      end
    end
  end
  return ops
end

-- Forgets the transaction and its log.
function tx.forget(t)
  redis.call("HDEL", KEYS[3], t.id)
  for from = 1, t.count, 500 do
    local fields = {}
    for k = from, math.min(from + 499, t.count) do fields[#fields + 1] = t.id .. ":" .. k end
    redis.call("HDEL", KEYS[3], unpack(fields))
  end
  frame.touch()
end

-- The queues of KEYS by encoded name, for scripts that get the queues of a whole transaction. A queue that does not
-- exist any more is named in `gone`.
function tx.queues()
  local found, gone = {}, {}
  for n = 1, (#KEYS - 3) / 8 do
    local q = queue.open(n, 3)
    if q then
      found[queue.name(q)] = q
    else
      gone[string.match(KEYS[3 + (n - 1) * 8 + 1], ":q:([^:]+):q$")] = true
    end
  end
  for name, q in pairs(found) do
    local parent = string.match(name, "^(.-)%%3B")
    if parent then queue.under(q, found[parent]) end
  end
  return found, gone
end

-- The names of queues that the operations need and KEYS does not bring, as a list; empty if all are there.
function tx.missing(ops, found, gone)
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
