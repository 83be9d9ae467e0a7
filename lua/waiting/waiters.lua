--- require "core/context"
--- require lazy "waiting/notify"
--- require lazy "waiting/match_waiters"
--- require lazy "matching/arrivals"
-- Waiting readers. A member of q.w is "<slot> <kind> <mode> <tag>": kind D destructive, C destructive with a
-- cursor, P peek; mode k<db>: notified by a keyspace notification, p<db>: by PUBLISH on the same channel; score: ticket, so
-- that a reader that looked in vain keeps its place. A wake is a hint: nothing is reserved for a destructive
-- reader. A peek reader is handed a copy, since the reader behind it may take the message before it has looked.
-- Readers of particular messages have their filter behind the tag and stand apart, see waiting/match_waiters.
local waiters = {}

-- What was handed to this slot while it waited: kind ("h" hint; "n" id that it was notified of, though it may want another
-- of the group; "m" message; "c" cancelled) and the rest; or nothing. For scripts that open their frame as one of a reader
-- that waits.
function waiters.handed()
  local text = context.handed
  if not text then return end
  redis.call("HDEL", KEYS[1], ARGV[1] .. "!")
  return string.sub(text, 1, 1), string.sub(text, 3)
end

-- The member of this slot: what the reader gave, and its filter if it has one.
function waiters.member(given, text)
  return ARGV[1] .. " " .. given .. (text ~= "" and " " .. text or "")
end

-- Up to which arrival a reader of particular messages has looked: the second part of its ticket, which counts only as
-- long as the reader is registered. Nothing if it has to look at everything.
function waiters.seen(q, member, ticket)
  local seen = string.match(ticket, ":(%d+)$")
  if seen and redis.call("ZSCORE", q.w, member) then return tonumber(seen) end
end

-- Is this the last look of a reader, whose time is over?
function waiters.leaving(ticket)
  return string.sub(ticket, 1, 5) == "leave"
end

-- Registers this slot as a waiting reader, at `ticket` if it had one. Returns its ticket. `from`: where the look began
-- that found nothing, "" if at the front.
function waiters.wait(q, member, ticket, text, from)
  local again = ticket ~= ""
  local number, seen = string.match(ticket, "^(%d*):?(%d*)$")
  ticket = number
  if not again then ticket = string.format("%.0f", redis.call("HINCRBY", q.q, "tickets", 1)) end
  if not q.waiting then q.waiting, q.changed = true, true end
  if text == "" then
    redis.call("ZADD", q.w, "NX", ticket, member)
    return ticket
  end
  match_waiters.load()
  local added = match_waiters.enlist(q, member, ticket, text)
  if added and again and string.find(member, "^%S+ [^P]") then
    -- It was notified and found nothing: the message may be something for other readers. Only for those behind it, so that
    -- this comes to an end: those before it were asked first.
    notify.load()
    notify.offer(q, notify.left(q), false, member)
  end
  arrivals.load()
  if from == "" then
    seen = string.format("%d", arrivals.newest(q))
  elseif added then
    -- It was not registered while it looked through the queue: something may have arrived in front of its place.
    seen = ""
  end
  return ticket .. ":" .. seen
end

-- A reader of particular messages takes these. If it was notified of another message, that one is offered again.
function waiters.spare(q, ids)
  local lid = string.match(context.handed or "", "^[hn] (%x+)$")
  if not lid or lid == ids[1] or not redis.call("ZSCORE", q.a, lid) then return end
  notify.load()
  q.arrived = q.arrived or {}
  q.arrived[#q.arrived + 1] = notify.left(q)[1]
end

-- Takes the registration back; 0 if there was none.
function waiters.drop(q, member, text)
  if text == "" then return redis.call("ZREM", q.w, member) end
  match_waiters.load()
  return match_waiters.strike(q, member, text)
end

-- Serves the readers that wait on a queue in which something became available (3.1.7.2.2), and on those beside it.
function waiters.notify(q)
  waiters.serve(q)
  for n = 1, #(context.sides or "") do waiters.serve(context.sides[n]) end
end

function waiters.serve(q)
  if not q.waiting or not (q.shown or q.arrived and #q.arrived > 0) then return end
  notify.load()
  notify.serve(q)
end
