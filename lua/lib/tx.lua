--- require "lib/frame"
--- require "lib/queue"
-- The log of a transaction (3.1.1.13, 3.1.1.14) in the hash txs:
--   "<id>"      deadline_ms fence count session
--   "<id>:<k>"  op queue lid [target] [reason]     op: S sent, R received, X received and rejected, M moved
-- Its messages are Locked with the transaction as owner, so a queue can undo its own part alone (lib/due).
local tx = { most = 1000 }

-- The open transaction, or nothing and a status. A lapsed one counts as gone. A fence "+<lease ms>" begins it with this
-- operation: nothing is written before tx.add.
function tx.open(id, fence)
  local text = redis.call("HGET", KEYS[2], id)
  if string.sub(fence, 1, 1) == "+" then
    local ended, last = string.match(text or "0 0 0", "^(%d+) %d+ (%d+)")
    if tonumber(ended) > frame.now then return nil, status.TRANSACTION_SEQUENCE end
    return { id = id, stale = tonumber(last), deadline = string.format("%.0f", frame.now + tonumber(fence)), count = 0,
      fence = string.format("%.0f", frame.history + 1), session = string.match(ARGV[1], "^%d+") }
  end
  if not text then return nil, status.TRANSACTION_SEQUENCE end
  local deadline, granted, count, session = string.match(text, "^(%d+) (%d+) (%d+) (%S+)$")
  if granted ~= fence then return nil, status.TRANSACTION_SEQUENCE end
  if tonumber(deadline) <= frame.now then return nil, status.TRANSACTION_SEQUENCE end
  return { id = id, deadline = deadline, fence = granted, count = tonumber(count), session = session }
end

-- Writes its record; what is left of a lapsed one with the same id goes.
function tx.save(t)
  for k = t.count + 1, t.stale or 0 do redis.call("HDEL", KEYS[2], t.id .. ":" .. k) end
  t.stale = nil
  redis.call("HSET", KEYS[2], t.id, t.deadline .. " " .. t.fence .. " " .. t.count .. " " .. t.session)
end

-- Appends one operation for each id. Room was checked by the caller.
function tx.add(t, q, op, ids, target)
  local name, args = queue.name(q), {}
  for n = 1, #ids do
    t.count = t.count + 1
    args[#args + 1] = t.id .. ":" .. t.count
    args[#args + 1] = op .. " " .. name .. " " .. ids[n] .. (target and " " .. target or "")
  end
  redis.call("HSET", KEYS[2], unpack(args))
  tx.save(t)
end
