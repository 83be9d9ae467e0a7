-- Show messages without taking them; with a cursor its current or its next one.
-- MS-MQDMPR 3.1.7.1.15 Peek Message, 3.1.7.1.14 Peek Next Message, 3.2.7.2-3
--
-- CALLERS peek in mqredis/commands/read.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] generation  of the queue behind the handle
-- ARGV[4] count  messages at most
-- ARGV[5] cursor  "" none; else a letter of seek.cursors and an id, as in receive.lua
-- ARGV[6] step  current | next, of a cursor; after: no cursor, the search goes on behind the id in ARGV[5], "" from the
--   front
-- ARGV[7] waiter  kind, mode, tag to register when nothing is found, "" to register nothing (waiting/waiters)
-- ARGV[8] ticket  "" first registration; its ticket on later polls; on the last one "leave" and its end from the colon on
-- ARGV[9] filter  which messages match, "" all (matching/filter)
-- RETURNS OK now in ms, then messages (core/message)
-- RETURNS WAITING ticket, ms until the next timer of the queue or -1
-- RETURNS CONTINUE as WAITING, then the id behind which the search goes on
-- RETURNS MATCH_OPTIONS
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS MESSAGE_ALREADY_RECEIVED
-- RETURNS ILLEGAL_CURSOR_ACTION
-- RETURNS GET_INHIBITED
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/timers"
--- require "core/seek"
--- require "core/position"
--- require "core/message"
--- require lazy "core/record"
--- require lazy "matching/search"
--- require "waiting/waiters"
--- require lazy "waiting/waiter_text"
-- Change together with: receive.lua, which takes cursor, waiter, ticket and filter in the same way (mqredis/operations/wait.py);
-- waiting/notify, whose notify.hand_copy makes the copy that a waiting peek gets. Tests: tests/conformance/test_peek.py,
-- test_cursor.py, test_wait.py.
local generation, count, cursor, step = ARGV[3], ARGV[4] + 0, ARGV[5], ARGV[6]
local registration, ticket, filter_text = ARGV[7], ARGV[8], ARGV[9]
local waits = registration ~= ""
local reply = context.open(waits)
if reply then return reply end
local q = queue.read(1)
if not q or q.generation ~= generation then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.open_parent(q)
timers.serve(q)

-- Refusals.
if context.missing then return waiters.finish(q, context.missing) end
if q.options.get_inhibited then return waiters.finish(q, { status.GET_INHIBITED }) end
local cursor_kind, from = string.sub(cursor, 1, 1), string.sub(cursor, 2)
if cursor_kind == seek.cursors.unread and step == "next" and ticket == "" then -- nothing was read before the next one
  return waiters.finish(q, { status.ILLEGAL_CURSOR_ACTION })
end

-- What was handed to the reader while it waited (waiting/waiter_text).
local waiter, notified_id = nil, nil
if waits then
  waiter = waiter_text.member(registration, filter_text)
  local kind, rest = waiter_text.take()
  if ticket ~= "" and kind == "copy" then
    local id, state, rec = waiter_text.parse_copy(rest)
    if context.lead > 0 then state, rec = message.without_lead(state), record.shown(rec, context.lead) end
    -- As core/message writes one message; the large body of a copy is with its record already.
    reply = context.reply(status.OK, context.now, id, state, rec, record.has_large_body(rec) and "" or nil)
    return waiters.finish(q, reply) -- its registration has ended with the copy
  end
  if kind == "notified" then notified_id = rest end
  -- "part" names no message that the reader must get: it searches from the front.
end

-- The first of these ways that applies. The current message of a cursor was matched when the cursor came to it, so the filter is
-- not asked again.
local entries, continue_from = {}, nil
if cursor_kind == seek.cursors.read and step == "current" then -- a cursor whose message was read: this message
  entries[1] = seek.current(q, from)
  if not entries[1] then return waiters.finish(q, { status.MESSAGE_ALREADY_RECEIVED }) end
elseif filter_text ~= "" then -- the first messages that match
  local code
  local seen = cursor == "" and waiters.seen(q, waiter, ticket)
  entries, continue_from, code = search.look(q, filter_text, from, count, { notified_id = notified_id, seen = seen })
  if code then return waiters.finish(q, { code }) end
elseif from == "end" then -- a cursor behind the last message: nothing
  entries = {}
elseif count > 1 then -- a page of a browser: available messages only
  entries = position.entries(seek.available(q, from, count))
else -- the first message, which may be locked but visible to peeks
  entries[1] = seek.visible(q, from, false)
end
if #entries > 0 then
  if waits then waiters.drop(q, waiter, filter_text) end
  local ids, recs, states = position.columns_of(entries)
  if ids[2] and not entries.whole then seek.limit(q, ids, recs, states) end
  reply = context.reply(status.OK, context.now)
  message.add(q, reply, ids, recs, message.join_states(states, #ids, ""))
  return waiters.finish(q, reply)
end

local code
code, ticket = waiters.found_nothing(q, waiter, ticket, filter_text, from, continue_from)
return waiters.finish(q, context.reply(code, ticket, timers.next(q), continue_from))
