--- require "core/context"
--- require "core/store"
--- require lazy "waiting/notify"
--- require lazy "waiting/match_waiters"
--- require lazy "matching/arrivals"
--- used by bulk, cancel, claim, claim_backlog, claim_commit, claim_match, claim_release, claim_wait, commit and others
-- Waiting readers: the members of q.waiters.
--
--   member   "<slot> <kind> <mode> <tag>", then " <filter>" if the reader has one (waiting/match_waiters)
--   kind     D destructive, C destructive with a cursor, P peek
--   mode     k<db> notified by a keyspace notification, p<db> by PUBLISH on the same channel
--   tag      ends the wait from another client (cancel.lua), encoded; "-" none
--   score    the ticket, so that a reader that found nothing keeps its place
--   ticket   "<number>"; with a filter "<number>:<last arrival that it has seen, or nothing>"; on the last look "leave",
--            with a filter "leave:<arrival>"
--
-- A notification reserves nothing for a destructive reader. A peek reader gets a copy, because another reader may take the
-- message first.
local waiters = {}

-- Takes what was handed to this slot while it waited: its kind and the rest, or nothing. Kinds: "h" and "n" the id of the
-- message that it was notified of, with "n" it may take another one of the group; "m" a message; "c" cancelled. Only after
-- context.open(true).
function waiters.take_handed()
  local text = context.handed
  if not text then return end
  redis.call("HDEL", KEYS[1], ARGV[1] .. "!")
  return string.sub(text, 1, 1), string.sub(text, 3)
end

-- The member of this slot: what the reader gave, and its filter ("" none).
function waiters.member(given, filter_text)
  return ARGV[1] .. " " .. given .. (filter_text ~= "" and " " .. filter_text or "")
end

-- Number of the last arrival that a reader with a filter has seen, from its ticket; nothing if it is not registered and
-- must search everything.
function waiters.seen(q, member, ticket)
  local seen = string.match(ticket, ":(%d+)$")
  if seen and redis.call("ZSCORE", q.waiters, member) then return tonumber(seen) end
end

-- Is this the last look of a reader, whose timeout has ended?
function waiters.is_last_look(ticket)
  return string.sub(ticket, 1, 5) == "leave"
end

-- Registers this slot as a waiting reader, at `ticket` if it had one; not for a last look. Returns its ticket. `from`: where
-- the search began that found nothing, "" at the front; used only with a filter.
function waiters.wait(q, member, ticket, filter_text, from)
  local again = ticket ~= ""
  local number, seen = string.match(ticket, "^(%d*):?(%d*)$")
  ticket = number
  if not again then ticket = string.format("%d", redis.call("HINCRBY", q.key, "tickets", 1)) end
  if not q.waiting then q.waiting, q.changed = true, true end
  if filter_text == "" then
    redis.call("ZADD", q.waiters, "NX", ticket, member)
    return ticket
  end
  match_waiters.load()
  local added = match_waiters.enlist(q, member, ticket, filter_text)
  if added and again and string.find(member, "^%S+ [^P]") then
    -- It was notified and found nothing: the message may match other readers. It is offered to readers after this one only,
    -- so that offering ends; those before it were asked first.
    notify.load()
    notify.offer(q, notify.left(q), false, member)
  end
  arrivals.load()
  if from == "" then
    seen = string.format("%d", arrivals.newest(q))
  elseif added then
    -- It was not registered during its search: messages may have arrived before the position that it has reached.
    seen = ""
  end
  return ticket .. ":" .. seen
end

-- A reader with a filter takes `ids`. If it was notified of another message that is still available, that is offered again.
function waiters.offer_again(q, ids)
  local lid = string.match(context.handed or "", "^[hn] (%x+)$")
  if not lid or lid == ids[1] or not redis.call("ZSCORE", q.available, lid) then return end
  notify.load()
  q.arrived = q.arrived or {}
  q.arrived[#q.arrived + 1] = notify.left(q)[1] -- nil if its group is busy
end

-- Removes the registration; 0 if there was none.
function waiters.drop(q, member, filter_text)
  if filter_text == "" then return redis.call("ZREM", q.waiters, member) end
  match_waiters.load()
  return match_waiters.remove(q, member, filter_text)
end

-- Ends a script that has worked on one queue: writes its counters, keeps the reply and returns it. Readers are notified last,
-- since a notification may fail. `reply`: a reply, or a status alone; `upto` and `ids`: context.close.
function waiters.finish(q, reply, upto, ids)
  store.save(q)
  if type(reply) == "number" then reply = { reply } end
  reply = context.close(reply, upto, ids)
  waiters.notify(q)
  return reply
end

-- Notifies the readers that wait on a queue in which something became available (3.1.7.2.2), and on the queues of
-- context.sides.
function waiters.notify(q)
  waiters.notify_one(q)
  waiters.notify_sides()
end

-- As waiters.notify, for a script that has no queue of its own.
function waiters.notify_sides()
  for _, side in ipairs(context.sides or {}) do waiters.notify_one(side) end
end

function waiters.notify_one(q)
  if not q.waiting then return end
  notify.load()
  notify.serve(q)
end
