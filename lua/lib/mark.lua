--- require "lib/frame"
-- Browse marks (IBM MQ: MQGMO_MARK_BROWSE_HANDLE, _CO_OP), members of q.i:
--   "y"handle NUL lid             seen by this browser ("<session>-<number>")
--   "z"lid NUL until              seen by the co-operating ones, until then (ms, 13 digits) or "-" for ever
local mark = {}

function mark.coop(q, lid)
  local found = redis.call("ZRANGEBYLEX", q.i, "[z" .. lid .. "\0", "(z" .. lid .. "\1", "LIMIT", 0, 1)[1]
  return found, found and string.sub(found, 19)
end

-- Is the message marked for this reader?
function mark.seen(q, f, lid)
  if redis.call("ZSCORE", q.i, "y" .. f.y .. "\0" .. lid) then return true end
  if not f.Z then return false end
  local _, over = mark.coop(q, lid)
  return over ~= nil and (over == "-" or tonumber(over) > frame.now)
end

-- Sets and takes away the marks that the filter asks for.
function mark.apply(q, f, lid)
  if not string.find(f.f, "[HKhk]") then return end
  local own = "y" .. f.y .. "\0" .. lid
  if string.find(f.f, "H", 1, true) then redis.call("ZADD", q.i, 0, own) end
  if string.find(f.f, "h", 1, true) then redis.call("ZREM", q.i, own) end
  if string.find(f.f, "[Kk]") then
    local old = mark.coop(q, lid)
    if old then redis.call("ZREM", q.i, old) end
  end
  if string.find(f.f, "K", 1, true) then
    local over = f.Z == "-" and "-" or string.format("%013.0f", frame.now + tonumber(f.Z))
    redis.call("ZADD", q.i, 0, "z" .. lid .. "\0" .. over)
  end
  frame.touch()
  mark.sweep(q)
end

-- Forgets a few marks that mean nothing any more: of messages that are gone, and of sessions that are.
function mark.sweep(q)
  local old = redis.call("ZRANGEBYLEX", q.i, "[z", "({", "LIMIT", 0, 8)
  for n = 1, #old do
    if redis.call("HEXISTS", q.m, string.sub(old[n], 2, 17)) == 0 then redis.call("ZREM", q.i, old[n]) end
  end
  local from = "[y"
  for _ = 1, 4 do
    local first = redis.call("ZRANGEBYLEX", q.i, from, "(z", "LIMIT", 0, 1)[1]
    local session = first and string.match(first, "^y(%d+)%-")
    if not session then return end
    from = "[y" .. session .. "."
    if redis.call("HEXISTS", KEYS[1], session) == 0 then
      local dead = redis.call("ZRANGEBYLEX", q.i, "[y" .. session .. "-", "(" .. from, "LIMIT", 0, 256)
      redis.call("ZREM", q.i, unpack(dead))
    end
  end
end
