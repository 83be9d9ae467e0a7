--- require "core/context"
--- require "core/queue"
-- The log of a transaction (3.1.1.13, 3.1.1.14) in the hash txs:
--   "<id>"      deadline_ms fence count session
--   "<id>:<k>"  op queue lid [target] [reason]     op: S sent, R received, X received and rejected, M moved
-- Its messages are Locked with the transaction as owner, so a queue can undo its own part alone (core/due).
local tx = { most = 1000 }

-- The open transaction, or nothing and a status. A lapsed one counts as gone. A fence "+<lease ms>" begins it with this
-- operation: nothing is written before tx.add.
function tx.open(id, fence)
  local text = redis.call("HGET", KEYS[2], id)
  if string.byte(fence) == 43 then
    local stale
    if text then
      local ended, last = string.match(text, "^(%d+) %d+ (%d+)")
      if ended + 0 > context.now then return nil, status.TRANSACTION_SEQUENCE end
      stale = last + 0
    end
    return { id = id, stale = stale, deadline = string.format("%d", context.now + fence), count = 0,
      fence = string.format("%d", context.history + 1), session = context.owner() }
  end
  if not text then return nil, status.TRANSACTION_SEQUENCE end
  local deadline, granted, count, session = string.match(text, "^(%d+) (%d+) (%d+) (%S+)$")
  if granted ~= fence then return nil, status.TRANSACTION_SEQUENCE end
  if deadline + 0 <= context.now then return nil, status.TRANSACTION_SEQUENCE end
  return { id = id, stale = nil, deadline = deadline, fence = granted, count = count + 0, session = session }
end

-- Writes its record, with more fields and values of the log if there are any; what is left of a lapsed one with the
-- same id goes. `count`: its number of operations as text, if the caller has it.
function tx.save(t, count, ...)
  if t.stale then
    for k = t.count + 1, t.stale do redis.call("HDEL", KEYS[2], t.id .. ":" .. k) end
    t.stale = nil
  end
  count = count or string.format("%d", t.count)
  redis.call("HSET", KEYS[2], t.id, t.deadline .. " " .. t.fence .. " " .. count .. " " .. t.session, ...)
end

-- Appends one operation for each id. Room was checked by the caller.
function tx.add(t, q, op, ids, target)
  local head, tail, stem = op .. " " .. queue.name(q) .. " ", target and " " .. target or "", t.id .. ":"
  if #ids == 1 then
    t.count = t.count + 1
    local count = string.format("%d", t.count)
    return tx.save(t, count, stem .. count, head .. ids[1] .. tail)
  end
  local args, count = { nil, nil }, t.count
  for n = 1, #ids do
    count = count + 1
    args[n * 2 - 1], args[n * 2] = stem .. string.format("%d", count), head .. ids[n] .. tail
  end
  t.count = count
  tx.save(t, nil, unpack(args))
end
