--- require "core/cache"
--- require "core/manager_config"
--- require lazy "core/replay"
--- used by 130 files: 69 scripts, 11 in admin, 5 in claims, 18 in core, 15 in features, 3 in matching, selector/selector_field, 3
---   in transactions, 5 in waiting
-- The context of a call. Each script begins with context.open, which reads the manager, the clock and the operation token.
-- It ends with context.close, which writes what has changed in meta and keeps the reply under the token. In between, modules ask
-- for more keys or for another call (context.require, context.ask_again), and for what context.close is to write (context.write,
-- context.mark_changed).
--
-- KEYS[1] meta, a hash with these fields:
--   schema, incarnation, clock, lead, ...  properties of the manager; "config": what each call needs of them (core/manager_config)
--   "counters"        "history seq messages bytes time"; seq: SequentialID; time: the latest broker time, in ms
--   <key of a queue>  the header of that queue (core/queue)
--   "<n>"             a session: "ttl highest_slot", ttl in ms
--   "<n>.<i>"         the saved reply of its slot i (see the end of this file)
--   "<n>.<i>!"        what a reader that waits in this slot was handed (waiting/waiters)
--   "lock:<fence>"    a lock of several messages (core/locks)
--   "client:<n>"      what the client of a session says of itself (core/session); "terms", "units": also there
--   "trail:...", "trails"  the trails of messages (features/trail_store)
-- KEYS[2] txs, a hash: "<id>" a transaction, "<id>:<k>" its k-th operation (transactions/tx)
-- ARGV[1] slot, "<session>.<i>"; ARGV[2] sequence of the operation token (mqredis/drivers/session.py), "" for a script that changes
--   nothing
--
-- Change together with: a new field of meta is named in docs/key-layout.md, and the doctor sorts fields by how their names begin
-- (_meta_group in mqredis/operations/doctor/snapshot.py; audit.scan in admin/audit shortens those that begin with a digit or "l").
-- A new part of "counters" stands in context.parse_counters and context.close, in session_open.lua, and in META_COUNTS of
-- mqredis/keys.py (tests/contract/test_constants.py compares); it needs a new schema number (core/manager_config).
--
-- Token: the client uses a slot for one call at a time, so a repeated sequence is a repeated call and gets the saved reply.
-- Refusals are saved, too, else a late copy of a refused request could run. tests/reliability/test_calls.py repeats calls.
--
-- Time: context.now is the broker time in ms, which never goes back. Stored times are broker times: the server's time plus `clock`,
-- which tests move, plus `lead`, which grows when the server's clock is set back. Users are shown broker time less the lead
-- (context.shown); some times are stored in this form. docs/decisions/time.md says why, and which.
--
-- A function library keeps this table from call to call. context.reset clears what the next call must not find, and
-- context.open sets the rest (tests/unit/test_functions.py compares them with the fields below, which are nil there to make room).
-- From then on a field that is not set is false and not nil: a table whose fields come and go is rehashed.
--
-- What was made from a stored text is used again if the next call reads the same text: the counters, and the tables of
-- queues (core/queue).
--
-- In all files `{ nil }` is an empty list with room for one element, which is cheaper than a list that has to grow.
local context = {
  -- The same in every call.
  patience = 1000,        -- ms by which the clock may be set back without a correction
  store_after = 5000,     -- ms after which the stored time is old
  -- Lengths as saved replies have them, of short elements and of ids and times: to format a number costs more.
  lengths = { [0] = "0:", "1:", "2:", "3:", "4:", "5:", "6:", "7:", "8:", "9:", [13] = "13:", [16] = "16:" },

  -- The call.
  call = 0,               -- its number in its library; tells tables of this call from those of earlier ones
  observing = nil,        -- the script may not write, so the time is not stored either (context.observe)
  changed = nil,          -- it changes something, so it has a history number (context.mark_changed)
  missing = nil,          -- the reply KEYS_CHANGED, with which the script must end (context.require)
  session = nil,          -- the new text of the call's session, which context.close writes; false if it does not change
  handed = nil,           -- what the slot of a waiting reader was handed
  again = nil, handover = nil, -- set by core/replay: a repeated call that the script has to complete

  -- The manager.
  manager = nil,          -- its properties (manager_config.parse)
  incarnation = "",       -- one of them
  now = 0, now_text = "", -- broker time in ms
  lead = 0,               -- how much of it users are not shown
  header = nil,           -- the text of the header of the first queue in KEYS, false if there is none

  -- The counters, and the text that they were read from or written to; false while they may differ from it.
  counters = nil, history = 0, history_text = "", seq = 0, messages = 0, bytes = 0, latest = 0,

  -- What context.close writes to meta: field, value, ...; the first `written` elements are those of this call.
  fields = { nil, nil, nil, nil, nil, nil }, written = 0,

  -- What modules keep for the rest of the call.
  sides = nil, places = nil, first_place = 2, -- queues beside the call's own (features/other_queues)
  groups = nil, group_members = 0, -- what features/group knows of groups
  search_decided = nil,   -- search.refuses was asked: a search refuses nothing any more
  audited = nil,          -- the queues that admin/audit reads
}

-- Clears what the call before has left. `observing`: true for context.observe.
function context.reset(observing)
  local c = context
  c.call, c.changed, c.written, c.observing = c.call + 1, false, 0, observing == true
  c.missing, c.session, c.handed, c.again, c.handover = false, false, false, false, false
  c.sides, c.places, c.groups, c.group_members, c.search_decided, c.audited = false, false, false, 0, false, false
  if cache.tables.size > cache.most then cache.clear(cache.tables) end
end

-- Begins a call: reads the time, and what each call needs of meta, with the header of the first queue. Returns the reply with
-- which the script must end at once, or nothing. `waits`: the call is one of a reader that waits, and may have been handed
-- something. `meta`: for a script that does not wait and has read them already (commit.lua, poll_all.lua), the values of the first
-- four of these fields of meta. `observing`: see context.observe.
function context.open(waits, meta, observing)
  context.reset(observing)
  if not meta and waits then
    meta = redis.call("HMGET", KEYS[1], "config", "counters", ARGV[1], KEYS[3] or "", ARGV[1] .. "!")
    context.handed = meta[5]
  elseif not meta then
    meta = redis.call("HMGET", KEYS[1], "config", "counters", ARGV[1], KEYS[3] or "")
  end
  local config, counters, kept, header = meta[1], meta[2], meta[3], meta[4]
  local time = redis.call("TIME")
  local manager, reply = cache.managers[config]
  if not manager then
    manager, reply = manager_config.parse(config)
    if reply then return reply end -- this build cannot use the manager
  end
  context.manager, context.incarnation, context.header = manager, manager.incarnation, header
  if not counters or counters ~= context.counters then context.parse_counters(counters or "") end
  context.counters = false -- until they are written: a call that fails may have changed some of them
  context.set_time(time[1] * 1000 + math.floor(time[2] / 1000) + manager.clock, manager.lead)
  if ARGV[2] ~= "" then return context.check_token(kept) end
end

-- Begins a call of a script with the flag no-writes, which users without the right to write may run: nothing is written even
-- if the server's clock was set back. Such a script opens its queues with queue.read and serves no timers.
function context.observe()
  return context.open(nil, nil, true)
end

-- Sets the manager's counters from the text of "counters". seq, messages and bytes stay texts until they change.
function context.parse_counters(text)
  local history, seq, messages, bytes, latest = string.match(text, "^(%d+) (%S+) (%S+) (%S+) (%d+)$")
  if not history then
    error("the manager's counters cannot be read (" .. text .. "). Restore the data from a backup, or "
      .. "delete the keys that begin with " .. context.prefix(), 0)
  end
  context.history, context.history_text, context.latest = history + 0, history, latest + 0
  context.seq, context.messages, context.bytes = seq, messages, bytes
end

-- Sets the broker time from `time`, the server's time in ms plus the clock of tests. If the server's clock was set back, the
-- lead grows by as much, so that broker time goes on from the latest that was stored.
function context.set_time(time, lead)
  local now, latest = time + lead, context.latest
  if now < latest then
    if latest - now > context.patience and not context.observing then
      lead = lead + latest - now
      redis.call("HSET", KEYS[1], "lead", lead)
      manager_config.save()
    end
    now = latest
  end
  context.now, context.now_text, context.lead = now, string.format("%d", now), lead
end

-- Returns the last SequentialID that was given out, 14 hex digits: digits 3 to 16 of a lookup id.
function context.last_sequential()
  return string.format("%014x", tonumber(context.seq))
end

-- Returns a broker time as users are shown it.
function context.shown(time)
  return time - context.lead
end

-- Returns what the keys and channels of this manager begin with, "mq:{<manager>}:". KEYS[1] is "mq:{<manager>}:meta".
function context.prefix()
  return string.sub(KEYS[1], 1, -5)
end

-- Returns how many clients are subscribed to a channel; nil if this user may not ask.
function context.listeners(channel)
  return redis.pcall("PUBSUB", "NUMSUB", channel)[2]
end

-- Returns the number of a slot's session, as text; nil if the text is not a slot.
function context.session_of(slot)
  return string.match(slot, "^(%d+)%.%d+$")
end

-- Returns the number of this call's session, as text; "" if the call has no slot.
function context.owner()
  return context.session_of(ARGV[1]) or ""
end

-- Returns nothing if the call with this token is to run, else its reply. `kept`: the saved reply of its slot, false if there is
-- none. A session goes with all its slots, so only a slot that kept nothing yet has to ask for its session.
function context.check_token(kept)
  if not kept then
    local session_text = redis.call("HGET", KEYS[1], context.owner())
    if not session_text then return { status.SESSION_EXPIRED, context.incarnation, context.history } end
    context.session = context.highest(session_text, ARGV[1]) or false
    return
  end
  if context.is_later(ARGV[2], context.reply_sequence(kept)) then return end
  return replay.answer(kept)
end

-- Returns the time to live of a session and the number of its highest slot, "" if it never used one, from its text in meta.
-- context.highest and session_open.lua write that text.
function context.parse_session(session_text)
  return string.match(session_text, "^(%d+) ?(%d*)$")
end

-- Returns the text of a session with this slot as its highest; nil if it has a higher one already. A call that changes nothing
-- leaves no reply in its slot, so there are gaps, and a session has to know where its slots end.
function context.highest(session_text, slot)
  local ttl, highest = context.parse_session(session_text)
  local number = tonumber(string.match(slot, "(%d+)$"))
  if highest == "" or number > tonumber(highest) then return ttl .. " " .. number end
end

-- Gives this call a history number, since it changes something. Its reply carries that number. Every script that changes something
-- has this called before context.close; more than once does no harm.
function context.mark_changed()
  if not context.changed then
    context.changed, context.history = true, context.history + 1
    context.history_text = string.format("%d", context.history)
  end
end

-- Asks the client to call again: with more keys (context.require), or since there was more to do than one call does. The script
-- ends with context.missing as its reply then; mqredis/operations/queue_call.py calls again.
function context.ask_again()
  context.missing = context.missing or context.reply(status.KEYS_CHANGED)
end

-- Asks the client to call again with this queue (encoded name) in KEYS. Only before anything is changed.
function context.require(name)
  context.ask_again()
  for n = 4, #context.missing do
    if context.missing[n] == name then return end
  end
  context.missing[#context.missing + 1] = name
end

-- Has context.close write a field of meta, in one command with all others.
function context.write(field, value)
  local fields, last = context.fields, context.written
  fields[last + 1], fields[last + 2] = field, value
  context.written = last + 2
end

-- Returns a reply for context.close: the status, and what the head of the script says behind it (RETURNS), from element 4 on.
-- Elements 2 and 3 are for context.close; Core.accept in mqredis/drivers/core.py reads the first three.
function context.reply(code, ...)
  return { code, "", 0, ... }
end

-- Appends elements to a reply, or to another list. None of them may be nil.
function context.append(reply, ...)
  for _, element in ipairs({ ... }) do reply[#reply + 1] = element end
end

-- Ends a script: writes meta, keeps the reply under the token and returns it. Sets elements 2 and 3 of the reply, the incarnation
-- and the history number; a reply may be the status alone, { status.OK }. With `ids` only the elements up to `upto` are kept, and
-- the ids of messages from which a repeated call reads the rest again. Waiting readers are notified after it (waiting/waiters).
function context.close(reply, upto, ids)
  local fields, count = context.fields, context.written
  reply[2], reply[3] = context.incarnation, context.history
  -- A call that changes nothing stores the time if the stored one is old, so that a clock that is set back between two
  -- changes delays deadlines by no more than that.
  if context.changed or context.now - context.latest > context.store_after and not context.observing then
    local counters = context.history_text .. string.format(" %d %d %d ", context.seq, context.messages, context.bytes)
      .. context.now_text
    fields[count + 1], fields[count + 2] = "counters", counters
    count, context.counters, context.latest = count + 2, counters, context.now
  end
  if ARGV[2] ~= "" then
    fields[count + 1], fields[count + 2] = ARGV[1], context.format_reply(ARGV[2], ids or "-", reply, upto)
    count = count + 2
    if context.session then
      fields[count + 1], fields[count + 2] = context.owner(), context.session
      count = count + 2
    end
  end
  -- A message of a topic may go to any number of queues, and unpack has its limit.
  if count > 2000 then
    for from = 2001, count, 2000 do redis.call("HSET", KEYS[1], unpack(fields, from, math.min(from + 1999, count))) end
    count, context.fields = 2000, { nil, nil, nil, nil, nil, nil }
  end
  if count > 0 then redis.call("HSET", KEYS[1], unpack(fields, 1, count)) end
  return reply
end

-- Saved replies -----------------------------------------------------------------------------------
--
-- The reply of a session's last call in a slot, as field "<session>.<slot>" of meta keeps it, so that the call gets the
-- same reply when it is repeated. The key of an operator's token keeps a reply in the same form (admin/operator).
--
--   "<sequence> <ms> <ids> <status> <history> <elements>"
--   example, of a send: "7 1764000000000 - 0 4711 16:040000000000002a"
--
--   sequence  the number of the call in its slot
--   ms        the broker time of the call
--   ids       "-"; or the ids of the messages that a repeated call reads again, with commas between them; or "!" and an id:
--             the lock of that message was handed to the slot before its reader asked for it (waiting/handoff). In the last
--             case a line break follows the reply, and behind it the text that the slot kept before
--   history   the history number of the call
--   elements  "<length>:<value>" for each element of the reply from the fourth on, without a separator
--
-- Only the functions below know this form, and mqredis/operations/doctor/checks/sessions.py how it begins.

-- Returns the text of a saved reply. `ids` as above. Of `reply` the status and the elements 4 to `upto` (all, if nil) are kept.
function context.format_reply(sequence, ids, reply, upto)
  local format, code, lengths, parts = string.format, reply[1], context.lengths, nil
  local text = sequence .. " " .. context.now_text .. " " .. ids .. (code == 0 and " 0 " or format(" %d ", code))
    .. context.history_text .. " "
  for n = 4, upto or #reply do
    local value = reply[n]
    if type(value) == "number" then value = format("%d", value) end
    local size = #value
    text = text .. (lengths[size] or format("%d:", size)) .. value
    -- Most replies are short. A long one is not copied again for each element.
    if #text > 4000 then
      parts = parts or { nil }
      parts[#parts + 1], text = text, ""
    end
  end
  return parts and table.concat(parts) .. text or text
end

-- Returns the sequence of a saved reply, as text. Here and below, `text` is that of a saved reply.
function context.reply_sequence(text)
  return string.match(text, "^%d+")
end

-- Is the sequence `left` later than `right`? Both are texts made from numbers, so the longer or the later one is larger.
function context.is_later(left, right)
  return #left > #right or (#left == #right and left > right)
end

-- Returns what a slot keeps of the call with this sequence, without the text it kept before; nil if it keeps another call.
function context.reply_of_call(text, sequence)
  local handed, before = string.match(text, "^(%d+ %d+ ![^\n]*)\n(.*)$")
  if handed then text = context.reply_sequence(handed) == sequence and handed or before end
  if context.reply_sequence(text) == sequence then return text end
end

-- Returns the part ids, and the id of the message whose lock was handed over if the part says that.
function context.reply_ids(text)
  local ids = string.match(text, "^%d+ %d+ (%S+)")
  return ids, string.match(ids, "^!(.*)$")
end

-- Returns the time of the call, in ms, and its history number, both as texts.
function context.reply_moment(text)
  return string.match(text, "^%d+ (%d+) %S+ %d+ (%d+) ")
end

-- Returns the status of the call, as a number.
function context.reply_status(text)
  return tonumber(string.match(text, "^%d+ %d+ %S+ (%d+)"))
end

-- Returns the reply as the call gave it, as far as it was kept.
function context.parse_reply(text)
  local code, history, rest = string.match(text, "^%d+ %d+ %S+ (%d+) (%d+) (.*)$")
  local reply, at = { tonumber(code), context.incarnation, tonumber(history) }, 1
  while at <= #rest do
    local colon = string.find(rest, ":", at, true)
    local size = tonumber(string.sub(rest, at, colon - 1))
    reply[#reply + 1] = string.sub(rest, colon + 1, colon + size)
    at = colon + size + 1
  end
  return reply
end
