-- Shows messages of a queue, a page at a time, whatever their state. Changes nothing and serves no timers, so it also shows
-- what is due and not served yet. All times are as users are shown them (context.shown).
-- MS-MQDMPR 3.1.7.1.15 Peek Message
--
-- CALLERS _messages in mqredis/commands/stored_messages.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2] its ;retry; the parent if it is a ;retry itself
-- ARGV[3] which  available: available messages in delivery order; reverse: those from the last to the first; scheduled:
--   those that are delayed or rest, by the time when they become available; one: the message ARGV[6], in any state
-- ARGV[4] count  messages at most
-- ARGV[5] score  in ms: scheduled messages behind it and ARGV[6]; "" from the front
-- ARGV[6] place  available, reverse: the id behind which the page begins; scheduled: the timer behind which it begins;
--   "" from the front
-- ARGV[7] until  ms: scheduled messages up to then, "" all
-- ARGV[8] filter  which messages match, "" all (matching/filter)
-- ARGV[9] whole  "1": with bodies of more than 4096 bytes, which are kept apart; else without them
-- RETURNS OK now in ms, "1" if there may be more, score and place behind which the next page begins; then of each message: id,
--   state (ready, delayed, retry, locked, claimed), when it becomes available in ms or -1, when it expires in ms or -1, what is
--   told of its state (core/message), its bytes, its record
-- RETURNS QUEUE_NOT_FOUND
-- FLAGS no-writes
--- require "core/context"
--- require "core/queue"
--- require "core/message"
--- require lazy "core/message_state"
--- require "core/position"
--- require lazy "core/record"
--- require "core/timers"
--- require "admin/ordered"
--- require lazy "claims/claim_pages"
--- require lazy "matching/filter"
-- Change together with: MessageState in mqredis/models/inspection.py, for another state; INLINE_BODY_BYTES in
-- mqredis/codec/encode.py, for the size from which on a body is kept apart; `_row` in mqredis/commands/stored_messages.py, which
-- takes seven elements for each message. Tests: tests/inspection/test_messages.py.
local which, count, score, place, until_ms, filter_text = ARGV[3], ARGV[4] + 0, ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local whole = ARGV[9] == "1"
-- looks: messages that this call may still look at; room: bytes of records that it may still return; page: messages that one
-- command reads.
local looks, room, page = 300, 1048576, 100
local reply = context.observe()
if reply then return reply end
local q = queue.read(1)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end
-- retry_queue: the subqueue ;retry, whose resting messages are listed among the scheduled ones of its queue; parent: if it is
-- ;retry itself that is listed, its queue, whose timers end the rests.
local retry_queue, parent
if queue.is_subqueue(q, "retry") then parent = queue.read(2) else retry_queue = queue.read(2) end
local criteria
if filter_text ~= "" then criteria = filter.parse(filter_text) end
-- From here on score and until_ms are broker times.
if score ~= "" then score = string.format("%.0f", score + context.lead) end
until_ms = until_ms ~= "" and until_ms + context.lead or nil

-- Is this message, which has no state and is not available, in a packed page of a claim?
local function in_packed_page(id)
  return claim_pages.find(q, id) ~= nil
end

-- Returns the state that is shown of a message, and when it becomes available, nil unless it is delayed. `state`: its state in the
-- store (core/message_state), nil if it has none.
local function state_of(id, state)
  if redis.call("ZSCORE", q.available, id) then return "ready" end
  local due = timers.delayed_until(q, id)
  if due then return "delayed", due end
  local is_claimed = state and message_state.is_claimed(state) or not state and in_packed_page(id)
  return is_claimed and "claimed" or "locked"
end

local elements = {} -- of the messages, as RETURNS describes them

-- Appends a message of the queue `from`, if it is there and matches. `shown_state`, `due`: as state_of returns them, nil if they
-- are not known. Returns true if the call is to end: the page is full, or the filter has done as much work as one call may.
local function append_message(from, id, shown_state, due)
  local rec = redis.call("HGET", from.records, id)
  if not rec or criteria and not filter.test(criteria, id, rec) then
    return criteria and filter.out_of_time(criteria)
  end
  local state_text = redis.call("HGET", from.states, id)
  local state = state_text and message_state.parse(state_text)
  if not shown_state then shown_state, due = state_of(id, state) end
  if shown_state == "ready" and parent then
    due = timers.resting_until(parent, id)
    shown_state = due and "retry" or shown_state
  end
  local expires = record.is_special(rec) and record.expires(rec)
  -- A locked message without a state is held by a lock of the header (core/locks) or by a packed page: it was delivered once.
  local is_held = shown_state == "locked" or shown_state == "claimed"
  local told = state and message.without_lead(message_state.shown(state)) or is_held and message_state.locked_once or ""
  local size = position.size(from, { id = id, rec = rec, state = state })
  if whole and record.has_large_body(rec) then rec = rec .. (redis.call("HGET", from.records, "^" .. id) or "") end
  context.append(elements, id, shown_state, due and string.format("%.0f", context.shown(due)) or -1,
    expires and context.shown(expires) or -1, told, size, record.shown(rec, context.lead))
  count, room = count - 1, room - #rec
  return count == 0 or room <= 0
end

-- The two lists. Each appends messages behind `place`, moves that on, and returns whether it has come to its end.

-- Returns up to `most` ids of available messages behind `place`.
local function available_ids(most, is_reverse)
  local from = place ~= "" and "(" .. place
  if is_reverse then return redis.call("ZREVRANGEBYLEX", q.available, from or "+", "-", "LIMIT", 0, most) end
  return redis.call("ZRANGEBYLEX", q.available, from or "-", "+", "LIMIT", 0, most)
end

local function list_available(is_reverse)
  while looks > 0 do
    local ids = available_ids(math.min(page, looks), is_reverse)
    if #ids == 0 then return true end
    for n = 1, #ids do
      looks, place = looks - 1, ids[n]
      if append_message(q, place, "ready", nil) then return false end
    end
  end
  return false
end

-- Appends the message of a timer (core/timers), if that makes a delayed or resting message available. Returns as append_message
-- does.
local function append_of_timer(member, due)
  local letters, letter, id = timers.letters, string.sub(member, 1, 1), string.sub(member, 2)
  if letter == letters.delay then return append_message(q, id, "delayed", due) end
  local is_rest = letter == letters.rest or letter == letters.rest_isolated
  -- One that was locked in ;retry does not rest.
  if not retry_queue or not is_rest or not redis.call("ZSCORE", retry_queue.available, id) then return false end
  return append_message(retry_queue, id, "retry", due)
end

local function list_scheduled()
  while looks > 0 do
    local members_dues = ordered.page(q.timers, score, place, math.min(page, looks)) -- member, due, member, due, ...
    if #members_dues == 0 then return true end
    for n = 1, #members_dues, 2 do
      local member, due = members_dues[n], tonumber(members_dues[n + 1])
      if until_ms and due > until_ms then return true end
      looks, score, place = looks - 1, string.format("%.0f", due), member
      if append_of_timer(member, due) then return false end
    end
  end
  return false
end

local at_end
if which == "one" then
  append_message(q, place, nil, nil)
  at_end = true
elseif which == "scheduled" then
  at_end = list_scheduled()
else
  at_end = list_available(which == "reverse")
end
if score ~= "" then score = string.format("%.0f", context.shown(score)) end
reply = context.reply(status.OK, context.shown(context.now), at_end and "0" or "1", score, place)
for n = 1, #elements do reply[#reply + 1] = elements[n] end
return context.close(reply)
