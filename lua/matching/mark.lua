--- require "core/context"
--- require "core/chunked"
--- used by matching/search, unmark
-- Browse marks (IBM MQ: MQGMO_MARK_BROWSE_HANDLE and _CO_OP): which messages a browser has seen. The marks are the last
-- members of q.index, all with score 0, and only this module writes and reads them:
--
--   "y"<browser> NUL <lookup id>      own mark: seen by this browser, "<session>-<number>"
--   "z"<lookup id> NUL <until>        shared mark: seen by a co-operating browser, until this moment (ms, 13 digits), or "-" for
--                                     ever
--   examples: y12-3 NUL 040000000000002a          z040000000000002a NUL 1764000060000
--
-- Fields of `criteria` (matching/filter) that matter here: browser; mark, unmark, mark_cooperative and unmark_cooperative, what is
-- to be done; mark_ms, how long shared marks count, nil if the browser does not co-operate.
--
-- Change together with: the letters are the last ones in q.index (matching/index), since mark.sweep_messages counts members from
-- the end. commands/filters.py in mqredis sends the options, mqredis/operations/browser.py decides which. unmark.lua removes own
-- marks.
--
-- own, shared: the letters of the members. dead_page: marks of a session that is gone that one call removes.
local mark = { own = "y", shared = "z", dead_page = 256 }

-- Returns the member of a browser's own mark.
function mark.member(browser, id)
  return mark.own .. browser .. "\0" .. id
end

-- Returns the text with which the member of the shared mark on a message begins.
function mark.shared_stem(id)
  return mark.shared .. id .. "\0"
end

-- Returns the member of the shared mark on a message, and until when it counts; nil if there is none.
function mark.find_shared(q, id)
  local stem = mark.shared_stem(id)
  local found = redis.call("ZRANGEBYLEX", q.index, "[" .. stem, "(" .. stem .. "\255", "LIMIT", 0, 1)[1]
  return found, found and string.sub(found, #stem + 1)
end

-- Is the message marked for this reader: by its own browser, or, if the filter asks for these (mark_ms), by another one?
function mark.seen(q, criteria, id)
  if redis.call("ZSCORE", q.index, mark.member(criteria.browser, id)) then return true end
  if not criteria.mark_ms then return false end
  local _, ends = mark.find_shared(q, id)
  return ends ~= nil and (ends == "-" or tonumber(ends) > context.now)
end

-- Sets and removes the marks on a message, as the filter asks for it.
function mark.apply(q, criteria, id)
  local own = mark.member(criteria.browser, id)
  if criteria.mark then redis.call("ZADD", q.index, 0, own) end
  if criteria.unmark then redis.call("ZREM", q.index, own) end
  if criteria.mark_cooperative or criteria.unmark_cooperative then
    local old = mark.find_shared(q, id)
    if old then redis.call("ZREM", q.index, old) end
  end
  if criteria.mark_cooperative then
    local ends = "-"
    if criteria.mark_ms ~= "-" then ends = string.format("%013.0f", context.now + tonumber(criteria.mark_ms)) end
    redis.call("ZADD", q.index, 0, mark.shared_stem(id) .. ends)
  end
  context.mark_changed()
end

-- Removes up to `most` of a browser's own marks. Returns how many. The caller calls context.mark_changed.
function mark.forget(q, browser, most)
  local stem = mark.member(browser, "")
  local marks = redis.call("ZRANGEBYLEX", q.index, "[" .. stem, "(" .. stem .. "\255", "LIMIT", 0, most)
  chunked.run("ZREM", q.index, marks)
  return #marks
end

-- Removes some marks of messages and of sessions that do not exist any more, so that marks do not pile up. `count`: how many
-- messages were marked in this call.
function mark.sweep(q, count)
  mark.sweep_messages(q, 8 * count)
  mark.sweep_sessions(q, 4)
end

-- Looks at the first `some` sessions that have own marks, and removes a page of the marks of each that is gone: it has no field
-- of meta (core/context).
function mark.sweep_sessions(q, some)
  local from = "[" .. mark.own
  for _ = 1, some do
    local first = redis.call("ZRANGEBYLEX", q.index, from, "(" .. mark.shared, "LIMIT", 0, 1)[1]
    local session = first and string.match(first, "^.(%d+)%-")
    if not session then return end
    local stem = mark.own .. session .. "-"
    local behind = "(" .. stem .. "\255" -- behind all marks of the session
    if redis.call("HEXISTS", KEYS[1], session) == 0 then
      local dead = redis.call("ZRANGEBYLEX", q.index, "[" .. stem, behind, "LIMIT", 0, mark.dead_page)
      redis.call("ZREM", q.index, unpack(dead))
    end
    from = behind
  end
end

-- Returns a number from 0 to 1 that is made from the history number: a square modulo a prime, small enough that a double holds
-- the square. It is evenly spread, however many other calls lie in between. (math.random gives every script the same.)
function mark.random()
  local x = context.history % 67108864 * 58655287 % 94906249
  return x * x % 94906249 / 94906249
end

-- Looks at `some` marks in a row, and removes those whose messages are gone. Each call looks at another place, since
-- messages that stay keep their marks in front of all others. A call adds one mark for eight that it looks at, so about an
-- eighth of all marks are of messages that are gone.
function mark.sweep_messages(q, some)
  -- Marks are the last members of q.index: `first` is the rank of the first one.
  local first = redis.call("ZLEXCOUNT", q.index, "-", "(" .. mark.own)
  local count = redis.call("ZCARD", q.index) - first
  local from = first
  if count > some then
    -- A row may begin in front of the first mark and end behind the last one, so that these are looked at as often as any other.
    from = first - some + 1 + math.floor(mark.random() * (count + some - 1))
  end
  local marks, dead = redis.call("ZRANGE", q.index, math.max(first, from), from + some - 1), {}
  for n = 1, #marks do
    local is_own = string.sub(marks[n], 1, 1) == mark.own
    local id = is_own and string.sub(marks[n], -16) or string.sub(marks[n], 2, 17)
    if redis.call("HEXISTS", q.records, id) == 0 then dead[#dead + 1] = marks[n] end
  end
  chunked.run("ZREM", q.index, dead)
end
