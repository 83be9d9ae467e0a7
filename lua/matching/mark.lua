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
-- Change together with: the letters are the last ones in q.index (matching/index), since mark.sweep counts members from the end.
-- mqredis/commands/filters.py sends the options, mqredis/operations/browser.py decides which. unmark.lua removes own marks.
-- Tests: tests/matching/test_browse.py, test_long_lists.py; at random with tests/model/browsing.py.
--
-- own, shared: the letters of the members.
local mark = { own = "y", shared = "z" }

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

-- Returns a number from 0 to 1 that is made from the history number: a square modulo a prime, small enough that a double holds
-- the square. It is evenly spread, however many other calls lie in between. (math.random gives every script the same.)
function mark.random()
  local x = context.history % 67108864 * 58655287 % 94906249
  return x * x % 94906249 / 94906249
end

-- Removes some marks of messages and of sessions that do not exist any more, so that marks do not pile up: looks at eight marks in
-- a row for each of the `count` messages that were marked in this call. Each call looks at another place, since what stays keeps
-- its marks in front of all others. A call adds one mark for eight that it looks at, so about an eighth of all marks are useless.
function mark.sweep(q, count)
  local some = 8 * count
  -- Marks are the last members of q.index: `first` is the rank of the first one.
  local first = redis.call("ZLEXCOUNT", q.index, "-", "(" .. mark.own)
  local total = redis.call("ZCARD", q.index) - first
  local from = first
  if total > some then
    -- A row may begin in front of the first mark and end behind the last one, so that these are looked at as often as any other.
    from = first - some + 1 + math.floor(mark.random() * (total + some - 1))
  end
  local marks, useless = redis.call("ZRANGE", q.index, math.max(first, from), from + some - 1), {}
  for n = 1, #marks do
    if mark.is_useless(q, marks[n]) then useless[#useless + 1] = marks[n] end
  end
  chunked.run("ZREM", q.index, useless)
end

-- Is this the member of a mark whose message is gone, or whose session is: it has no field of meta then (core/context)?
function mark.is_useless(q, member)
  local is_own = string.sub(member, 1, 1) == mark.own
  local id = is_own and string.sub(member, -16) or string.sub(member, 2, 17)
  if redis.call("HEXISTS", q.records, id) == 0 then return true end
  return is_own and redis.call("HEXISTS", KEYS[1], string.match(member, "^.(%d+)%-") or "") == 0
end
