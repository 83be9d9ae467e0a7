--- require "core/context"
--- require "core/chunked"
-- Browse marks (IBM MQ: MQGMO_MARK_BROWSE_HANDLE, _CO_OP), members of q.i:
--   "y"handle NUL lid             seen by this browser ("<session>-<number>")
--   "z"lid NUL until              seen by the co-operating ones, until then (ms, 13 digits) or "-" for ever
-- They are its last members.
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
  return over ~= nil and (over == "-" or tonumber(over) > context.now)
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
    local over = f.Z == "-" and "-" or string.format("%013.0f", context.now + tonumber(f.Z))
    redis.call("ZADD", q.i, 0, "z" .. lid .. "\0" .. over)
  end
  context.mark_changed()
end

-- Forgets a few marks that mean nothing any more, where `count` messages were marked: of messages that are gone, and of
-- sessions that are.
function mark.sweep(q, count)
  mark.gone(q, 8 * count)
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

-- A number from 0 to 1 made of this call's, another one for each, and spread alike whatever number of other calls lies
-- between two that ask: a square modulo a prime, whose square a number can hold. (A script has no chance to throw dice:
-- the server gives each the same.)
function mark.place()
  local x = context.history % 67108864 * 58655287 % 94906249
  return x * x % 94906249 / 94906249
end

-- Looks at so many marks in a row whether their messages are gone. Messages that stay may keep theirs for ever, in front
-- of all others, so each call looks at another place. A call adds one mark for eight that it looks at, so of all marks
-- some eighth are of messages that are gone.
function mark.gone(q, some)
  local first = redis.call("ZLEXCOUNT", q.i, "-", "(y")
  local count = redis.call("ZCARD", q.i) - first
  -- All if they are no more than that. Else the first place and the last one are looked at as often as any, so a row may
  -- begin before that and end behind this.
  local from = count <= some and first or first - some + 1 + math.floor(mark.place() * (count + some - 1))
  local marks, dead = redis.call("ZRANGE", q.i, math.max(first, from), from + some - 1), {}
  for n = 1, #marks do
    local own = string.byte(marks[n]) == 121  -- "y"
    local lid = own and string.sub(marks[n], -16) or string.sub(marks[n], 2, 17)
    if redis.call("HEXISTS", q.m, lid) == 0 then dead[#dead + 1] = marks[n] end
  end
  chunked.run("ZREM", q.i, dead)
end
