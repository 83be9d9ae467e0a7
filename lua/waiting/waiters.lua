--- require "core/context"
--- require "core/store"
--- require lazy "waiting/waiter_text"
--- require lazy "waiting/notify"
--- require lazy "waiting/match_waiters"
--- require lazy "matching/arrivals"
--- used by admin/operator, bulk, cancel, claim, claim_backlog, claim_commit, claim_match, claim_release, claim_wait, commit,
---   lookup, maintain, move, peek, publish, purge, queue_delete, queue_update, receive, redrive, send, settle, stage_publish,
---   stop_waiting, tx_abort, unlock
-- Registers readers that wait on a queue, and ends the scripts after which readers may have to be notified.
--
-- A reader that finds nothing becomes a member of q.waiters (waiting/waiter_text). Its score is its ticket's number, which field
-- "tickets" of q.key counts, so the reader that has waited longest is notified first; a reader that was notified in vain keeps its
-- ticket, and so its place. A notification reserves no message. Readers with a filter have other scores (waiting/match_waiters).
--
-- A ticket, as the client sends it back with the reader's next call, is a text:
--
--   ""                          it is the first call
--   "<number>"                  without a filter
--   "<number>:<arrival>"        with a filter; arrival: number of the last arrival that the reader has seen (matching/arrivals),
--                               empty if it must search everything, as an indexed reader always does
--   "leave" "leave:<arrival>"   it is the last look of a reader whose timeout has ended
--   "nowait"                    it does not wait (receive.lua)
--
-- A script that makes messages available ends with waiters.finish, or, if it changes more than one queue or keeps another reply,
-- with its three steps: store.save, then context.close, then waiters.notify.
--
-- Change together with: mqredis/operations/wait.py sends tickets back, and Waiter in mqredis/commands/waiting.py makes those that
-- begin with "leave"; the heads of receive.lua and peek.lua name the forms as well. The doctor compares scores with the number of
-- tickets (`waiters` in mqredis/operations/doctor/checks/sessions.py). Tests: tests/conformance/test_wait.py, and
-- tests/matching/test_notified_readers.py and test_rechecks.py for readers with a filter.
local waiters = {}

-- Waiting ---------------------------------------------------------------------------------------------------------------

-- Returns the number of the last arrival that a reader with a filter has seen; nil if it must search everything. `member`: of
-- waiter_text.member.
function waiters.seen(q, member, ticket)
  local seen = string.match(ticket, ":(%d+)$")
  if seen and redis.call("ZSCORE", q.waiters, member) then return tonumber(seen) end
end

-- Registers a reader that found nothing; after its last look its registration ends, unless its search goes on. Returns the status
-- of the reply, and the ticket. `member`: of waiter_text.member, nil for a reader that does not wait; `from`: as of waiters.wait;
-- `continue_from`: the id behind which the search goes on, nil if it is complete.
function waiters.found_nothing(q, member, ticket, filter_text, from, continue_from)
  if string.sub(ticket, 1, 5) == "leave" then
    if not continue_from then waiters.drop(q, member, filter_text) end
  elseif member then
    ticket = waiters.wait(q, member, ticket, filter_text, from)
  end
  return continue_from and status.CONTINUE or status.WAITING, ticket
end

-- Registers a reader that found nothing, in its old place if it had a ticket. Not for a last look. Returns its ticket. `member`: of
-- waiter_text.member. With a filter, `from` is the place where its search began, "" for the front of the queue.
function waiters.wait(q, member, ticket, filter_text, from)
  local has_waited = ticket ~= ""
  local number, seen = string.match(ticket, "^(%d*):?(%d*)$")
  if not has_waited then number = string.format("%d", redis.call("HINCRBY", q.key, "tickets", 1)) end
  if not q.waiting then q.waiting, q.changed = true, true end
  if filter_text == "" then
    redis.call("ZADD", q.waiters, "NX", number, member)
    return number
  end
  local is_new, is_indexed = match_waiters.enlist(q, member, number, filter_text)
  -- It was notified, which ended its registration, and found nothing.
  if is_new and has_waited and waiter_text.is_taking(member) then waiters.pass_on(q, member) end
  if is_indexed then
    seen = "" -- arrivals are not noted for it, and few messages have its identifier
  elseif from == "" then
    seen = string.format("%d", arrivals.newest(q))
  elseif is_new then
    seen = "" -- messages may have arrived before the place that its search has reached, while it was not registered
  end
  return number .. ":" .. seen
end

-- Offers the message that the reader of this call was notified of, and could not use, to other readers: only to those behind it
-- (`member`), so that offering ends; those before it were asked first. Not at the end of the script as other notifications, since
-- only here it is known which message that is.
function waiters.pass_on(q, member)
  notify.offer(q, notify.left(q), nil, member)
end

-- Removes a reader's registration. Returns 0 if there was none, else 1.
function waiters.drop(q, member, filter_text)
  if filter_text == "" then return redis.call("ZREM", q.waiters, member) end
  return match_waiters.remove(q, member, filter_text)
end

-- Offers the message that the reader of this call was notified of to others when the script ends, if it is still available, so that
-- the reader has taken another one. For readers with a filter, after they have taken theirs.
function waiters.offer_again(q)
  local id = waiter_text.notified_of()
  if not id or not redis.call("ZSCORE", q.available, id) then return end
  store.announce(q, notify.left(q)) -- another one if its group is busy
end

-- Offers the message whose turn it is to the next reader of any message, if the reader of this call was notified, and has taken one
-- without a lock. Of a group that is not busy any more these readers were offered the first message alone (features/group_lock).
function waiters.offer_turn(q)
  if not q.waiting or not waiter_text.notified_of() then return end
  notify.offer_turn(q)
end

-- Ends of scripts -------------------------------------------------------------------------------------------------------

-- Ends a script that works on one queue: writes the counters, keeps the reply, notifies readers. Returns the reply. `reply`,
-- `upto` and `ids` as of context.close.
function waiters.finish(q, reply, upto, ids)
  store.save(q)
  reply = context.close(reply, upto, ids)
  if q.waiting or q.parent or context.sides then waiters.notify(q) end -- last, since a notification may fail
  return reply
end

-- Notifies the readers that wait on a queue, on its parent, whose timers it may have set (features/retry), and on the other
-- queues that the script has opened (context.sides).
function waiters.notify(q)
  waiters.notify_one(q)
  if q.parent then waiters.notify_one(q.parent) end
  waiters.notify_sides()
end

-- Notifies the readers that wait on the queues in context.sides.
function waiters.notify_sides()
  for _, side in pairs(context.sides or {}) do waiters.notify_one(side) end
end

-- Notifies the readers that wait on a queue.
function waiters.notify_one(q)
  if not q.waiting then return end
  notify.serve(q)
end
