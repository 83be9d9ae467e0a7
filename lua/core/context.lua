--- require "core/cache"
--- require "core/kept_reply"
--- require lazy "core/replay"
-- The context of a call: the manager, the clock, the operation token, and what the call has to write at its end.
--
-- KEYS[1] meta  hash  schema, incarnation, clock, throttled, quotas and more properties; "brief" made of them;
--                     "counts": "history seq messages bytes time" (seq: SequentialID; time: the latest broker time,
--                     in ms); "<queue's first key>" its header
--                     (core/queue_header); "<n>" a session: ttl in ms, highest slot; "<n>.<i>" its slot (core/kept_reply);
--                     "<n>.<i>!" handed to a waiter; "lock:<fence>" (core/locks)
-- KEYS[2] txs   hash  "<id>" a transaction; "<id>:<k>" its k-th operation
-- ARGV[1] slot  ARGV[2] sequence of the operation token, "" for a script that changes nothing
--
-- A slot keeps only its last reply: the client uses a slot for one call at a time, so a repeated sequence is a
-- repeated call and gets the first answer. Refusals are kept too, else a late copy of a refused request could run.
--
-- "brief" holds what each call needs of the manager's properties: "schema incarnation clock throttled quota_messages
-- quota_bytes lead". A script that writes one of these calls context.save_config.
--
-- Time: now is the broker time in ms, which never goes back. All stored times are broker times. It is the server's time
-- plus `clock`, which tests move, plus `lead`, which grows when the server's clock is set back. What users are shown is
-- broker time less the lead (context.shown). Why: docs/decisions/time.md.
--
-- schema: the number of the form in which this build keeps its data, and the only one that it reads.
--
-- All state of a call is in this table, and context.reset forgets it: a function library keeps its tables from call to
-- call. A field that is not set is false, never nil, since a table that outlives a call would be rehashed. Tables that few
-- calls need are made when they are needed.
local context = {
  schema = "6",
  -- In ms: how far back the clock may be set without a correction; how old the stored time may become.
  patience = 1000, store_after = 5000,
  changed = false, observing = false, incarnation = "", history = 0, now = 0, now_text = "", lead = 0, latest = 0,
  seq = 0, messages = 0, bytes = 0,
  quota_messages = false, quota_bytes = false, throttled = false, missing = false, session = false, header = false,
  handed = false, again = false, handover = false, fields = {}, queues = {}, sides = false,
  places = false, first_place = 2,
  groups = false, group_members = 0, search_decided = false, shelves = false,
}

function context.reset()
  local c = context
  c.changed, c.observing, c.incarnation, c.history, c.now, c.now_text = false, false, "", 0, 0, ""
  c.lead, c.latest = 0, 0
  c.seq, c.messages, c.bytes, c.quota_messages, c.quota_bytes, c.throttled = 0, 0, 0, false, false, false
  c.missing, c.session, c.header, c.handed, c.again, c.handover = false, false, false, false, false, false
  c.fields, c.queues, c.sides, c.places, c.first_place = { nil, nil, nil, nil, nil, nil }, {}, false, false, 2
  c.groups, c.group_members, c.search_decided, c.shelves = false, 0, false, false
end

-- Begins a call: reads what each call needs of meta, with the header of the first queue, and the time. `waits`: the call
-- is one of a reader that waits, which may have been handed something. `meta` and `time`: what was read of them already.
-- `observing`: context.observe.
-- Returns the reply with which the script must end at once, or nothing.
function context.open(waits, meta, time, observing)
  context.reset()
  if observing then context.observing = true end
  if not meta and waits then
    meta = redis.call("HMGET", KEYS[1], "brief", "counts", ARGV[1], KEYS[3] or "", ARGV[1] .. "!")
    context.handed = meta[5]
  elseif not meta then
    meta = redis.call("HMGET", KEYS[1], "brief", "counts", ARGV[1], KEYS[3] or "")
  end
  time = time or redis.call("TIME")
  local manager = cache.managers[meta[1]] or context.parse_config(meta[1])
  if not manager.clock then return manager end
  local history, seq, messages, bytes, latest = string.match(meta[2] or "", "^(%d+) (%S+) (%S+) (%S+) (%d+)$")
  context.incarnation, context.history, context.header = manager.incarnation, history + 0, meta[4]
  context.set_time(time[1] * 1000 + math.floor(time[2] / 1000) + manager.clock, manager.lead, latest + 0)
  context.seq, context.messages, context.bytes = seq, messages, bytes -- texts, until they change
  context.throttled, context.quota_messages, context.quota_bytes = manager.throttled, manager.messages, manager.bytes
  if ARGV[2] ~= "" then return context.check_token(meta[3]) end
end

-- The same for a script that is flagged no-writes, so that a user without the right to write may run it: nothing is written
-- even where the server's clock was set back. Such a script opens its queues with queue.read, and serves no timers.
function context.observe()
  return context.open(false, nil, nil, true)
end

-- Sets the broker time from `time`, the server's in ms with the clock of tests. If the server's clock was set back, the
-- lead grows by as much, so that broker time goes on from the latest that was stored.
function context.set_time(time, lead, latest)
  local now = time + lead
  if now < latest then
    if latest - now > context.patience and not context.observing then
      lead = lead + latest - now
      redis.call("HSET", KEYS[1], "lead", lead)
      context.save_config()
    end
    now = latest
  end
  context.now, context.now_text, context.lead, context.latest = now, string.format("%d", now), lead, latest
end

-- A broker time as users are shown it.
function context.shown(time)
  return time - context.lead
end

-- The manager's configuration of this text; or the reply that says what is wrong with it.
function context.parse_config(text)
  if not text or text == "" then text = context.read_config() end
  if not text then return { status.MANAGER_NOT_FOUND, "", 0 } end
  local schema, incarnation, clock, throttled, messages, bytes, lead =
    string.match(text, "^(%S*) (%S*) (%S*) (%S*) (%d*) (%d*) (%d*)$")
  if schema ~= context.schema then
    local older = (tonumber(schema) or 0) < tonumber(context.schema)
    return { older and status.SCHEMA_TOO_OLD or status.SCHEMA_TOO_NEW, incarnation or "", 0 }
  end
  return cache.keep(cache.managers, text, { incarnation = incarnation, clock = tonumber(clock) or 0,
    lead = tonumber(lead) or 0,
    throttled = throttled == "1", messages = tonumber(messages) or false, bytes = tonumber(bytes) or false })
end

-- The configuration as the fields have it; nothing if there is no manager.
function context.read_config()
  local f = redis.call("HMGET", KEYS[1], "schema", "incarnation", "clock", "throttled", "quota_messages",
    "quota_bytes", "lead")
  if not f[1] then return end
  for n = 2, 7 do f[n] = f[n] or "" end
  return table.concat(f, " ")
end

function context.save_config()
  redis.call("HSET", KEYS[1], "brief", context.read_config())
end

-- The number of this call's session.
function context.owner()
  return string.match(ARGV[1], "^(%d+)%.%d+$") or ""
end

-- Is the call with this token to run? Nothing if so, else the reply. `slot`: what meta keeps of it. A session goes with all
-- its slots, so only a slot that kept nothing yet has to ask for its session.
function context.check_token(slot)
  if not slot then
    local known = redis.call("HGET", KEYS[1], context.owner())
    if not known then return { status.SESSION_EXPIRED, context.incarnation, context.history } end
    context.session = context.highest(known, ARGV[1]) or false
    return
  end
  local sequence, last = ARGV[2], kept_reply.sequence(slot)
  -- Both were made from numbers, so the longer or the later text is the larger number.
  if #sequence > #last or (#sequence == #last and sequence > last) then return end
  replay.load()
  return replay.answer(slot)
end

-- The text of a session, "ttl highest", once it counts this slot among its own; nothing if it does already. A slot that
-- is only read with leaves nothing behind, so slots have gaps and a session has to know where they end.
function context.highest(text, slot)
  local ttl, highest = string.match(text, "^(%d+) ?(%d*)$")
  local place = tonumber(string.match(slot, "(%d+)$"))
  if highest == "" or place > tonumber(highest) then return ttl .. " " .. place end
end

-- Something changed: the history number of this call is the one its reply will carry.
function context.mark_changed()
  if not context.changed then
    context.changed = true
    context.history = context.history + 1
  end
end

-- A queue that the script needs and KEYS does not bring. It is asked for before anything is changed.
function context.require(name)
  context.missing = context.missing or { status.KEYS_CHANGED, "", 0 }
  for n = 4, #context.missing do
    if context.missing[n] == name then return end
  end
  context.missing[#context.missing + 1] = name
end

-- Has a field of meta written when the script ends.
function context.write(field, value)
  local fields = context.fields
  local last = #fields
  fields[last + 1], fields[last + 2] = field, value
end

-- Ends a script: writes meta, keeps the reply under the token, returns it. reply[2] and reply[3] are filled in. With `ids`
-- only the elements up to `upto` are kept, and the ids from which the rest can be read again.
function context.close(reply, upto, ids)
  reply[2], reply[3] = context.incarnation, context.history
  local fields = context.fields
  -- A call that changes nothing stores the time if the stored one is old, so that a clock that is set back between two
  -- changes delays deadlines by no more than that.
  if context.changed or context.now - context.latest > context.store_after and not context.observing then
    context.write("counts", string.format("%d %d %d %d %s", context.history, context.seq, context.messages,
      context.bytes, context.now_text))
  end
  if ARGV[2] ~= "" then
    context.write(ARGV[1], kept_reply.format(ARGV[2], context.now_text, ids or "-", reply, upto or #reply))
    if context.session then context.write(context.owner(), context.session) end
  end
  -- A message of a topic may go to any number of queues, and unpack has its limit.
  local count = #fields
  if count > 2000 then
    for from = 2001, count, 2000 do redis.call("HSET", KEYS[1], unpack(fields, from, math.min(from + 1999, count))) end
    count = 2000
  end
  if count > 0 then redis.call("HSET", KEYS[1], unpack(fields, 1, count)) end
  return reply
end
