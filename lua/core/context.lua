--- require "core/status"
--- require lazy "core/replay"
-- The frame of every script: the manager, the clock, the operation token, the envelope of the reply.
--
-- KEYS[1] meta  hash  schema, incarnation, clock, throttled, quotas and more properties; "brief" made of them;
--                     "counts": "history seq messages bytes" (seq: SequentialID); "<n>" a session: ttl in ms, highest
--                     slot; "<n>.<i>" its slot: last sequence and reply; "<n>.<i>!" handed to a waiter
-- KEYS[2] txs   hash  "<id>" a transaction; "<id>:<k>" its k-th operation
-- ARGV[1] slot  ARGV[2] sequence of the operation token, "" for a script that changes nothing
--
-- A slot keeps only its last reply: the client uses a slot for one call at a time, so a repeated sequence is a
-- repeated call and gets the first answer. Refusals are kept too, else a late copy of a refused request could run.
-- "<last sequence> <ms> <ids> <status> <history> <elements>"; ids: "-", those of the messages to be read again, or "!" and
-- the id of a lock that was handed to a reader who had not asked yet (waiting/handoff); then a line with the reply before that.
--
-- Most calls want the same few of meta's properties, and each costs a search: "brief" holds them in one text, "schema
-- incarnation clock throttled quota_messages quota_bytes". Whoever writes one of these calls context.save_config().
-- Who changes what stands in the tables of the modules does so behind context.open: what a function of the server finds
-- there the next time is set back only then (mqredis/functions.py). But for context.read, which sets what it says each time.
local context = {
  opened = false, changed = false, incarnation = "", history = 0, now = 0, now_text = "", seq = 0, messages = 0,
  bytes = 0,
  quota_messages = nil, quota_bytes = nil, throttled = false, again = nil, missing = nil, sides = nil,
  enlist = nil, handed = nil, handover = nil, headers = nil, memo = { size = 0 },
}

-- What was taken apart before: a function of the server keeps it from call to call (mqredis/functions.py), since what
-- comes of a text depends on the text alone. `most`: so many texts, 500 if not given.
function context.remember(memo, text, value, most)
  if memo.size > (most or 500) then
    for key in pairs(memo) do memo[key] = nil end
    memo.size = 0
  end
  memo[text] = value
  memo.size = memo.size + 1
  return value
end

-- What each call reads of meta, and the time. `waits`: the call is a look of a waiting reader, for waiters.handed.
function context.read(waits)
  local meta
  if waits then
    meta = redis.call("HMGET", KEYS[1], "brief", "counts", ARGV[1], ARGV[1] .. "!")
  else
    meta = redis.call("HMGET", KEYS[1], "brief", "counts", ARGV[1])
  end
  context.handed = meta[4]
  return meta, redis.call("TIME")
end

-- Returns the reply with which the script must end at once, or nothing. Sets context.again when the stored reply
-- names messages that the entry script has to read again. seq, messages and bytes stay text until they change. What
-- context.read answers may be given.
function context.open(waits, meta, time)
  context.opened = true
  if not meta then meta, time = context.read(waits) end
  local known = context.memo[meta[1]] or context.parse_config(meta[1])
  if not known.clock then return known end
  local history, seq, messages, bytes = string.match(meta[2] or "", "^(%d+) (%S+) (%S+) (%S+)$")
  local now = time[1] * 1000 + math.floor(time[2] / 1000) + known.clock
  context.incarnation, context.history = known.incarnation, history + 0
  context.now, context.now_text = now, string.format("%d", now)
  context.seq, context.messages, context.bytes = seq, messages, bytes
  if known.limited then
    context.throttled, context.quota_messages, context.quota_bytes = known.throttled, known.messages, known.bytes
  end
  if ARGV[2] ~= "" then return context.token(meta[3]) end
end

-- A brief taken apart; or the reply that says what is wrong.
function context.parse_config(text)
  if not text or text == "" then text = context.read_config() end
  if not text then return { status.MANAGER_NOT_FOUND, "", 0 } end
  local schema, incarnation, clock, throttled, messages, bytes =
    string.match(text, "^(%S*) (%S*) (%S*) (%S*) (%d*) (%d*)$")
  if not string.find(schema or "", "^[2345]$") then return { status.SCHEMA_TOO_NEW, incarnation or "", 0 } end
  messages, bytes = tonumber(messages), tonumber(bytes)
  return context.remember(context.memo, text, { incarnation = incarnation, clock = tonumber(clock) or 0,
    limited = throttled == "1" or messages ~= nil or bytes ~= nil, throttled = throttled == "1", messages = messages,
    bytes = bytes })
end

-- The brief as the fields have it; nothing if there is no manager.
function context.read_config()
  local f = redis.call("HMGET", KEYS[1], "schema", "incarnation", "clock", "throttled", "quota_messages", "quota_bytes")
  if not f[1] then return end
  for n = 2, 6 do f[n] = f[n] or "" end
  return table.concat(f, " ")
end

function context.save_config()
  redis.call("HSET", KEYS[1], "brief", context.read_config())
end

-- The number of this call's session.
function context.owner()
  return string.match(ARGV[1], "^(%d+)%.%d+$") or ""
end

-- Is the call of this token to run? Nothing if so, else the reply. `slot`: what meta keeps of it. A session goes with all
-- its slots, so only one that kept nothing yet has to ask for its session.
function context.token(slot)
  if not slot then
    local known = redis.call("HGET", KEYS[1], context.owner())
    if not known then return { status.SESSION_EXPIRED, context.incarnation, context.history } end
    context.enlist = context.highest(known, ARGV[1])
    return
  end
  local sequence, last = ARGV[2], string.match(slot, "^%d+")
  -- Both as they were made from numbers, so the longer or the later text is the larger number.
  if #sequence > #last or (#sequence == #last and sequence > last) then return end
  local kept = context.kept(slot, sequence)
  if not kept then return { status.TOKEN_REUSED, context.incarnation, context.history } end
  local again, reply = string.match(kept, "^%d+ %d+ (%S+) (%d+ %d+ .*)$")
  -- WAIT and WAITAOF of a connection count what this connection wrote (Redis 7.2): a repeated call on a new one writes
  -- what is there already. A server that is full may refuse that; then nobody is told that the change got further.
  redis.pcall("HSET", KEYS[1], ARGV[1], slot)
  replay.load()
  reply = replay.decode(reply)
  if again == "-" then return reply end
  if string.byte(again) == 33 then  -- "!": whoever does not look for it was not answered yet
    context.handover = { lid = string.sub(again, 2), reply = reply }
    return
  end
  context.again = { ids = again, reply = reply }
end

-- What a slot keeps of this sequence, without the line behind it; nothing if that is another's.
function context.kept(slot, sequence)
  local handed, before = string.match(slot, "^(%d+ %d+ ![^\n]*)\n(.*)$")
  if handed then slot = string.match(handed, "^%d+") == sequence and handed or before end
  if string.match(slot, "^%d+") == sequence then return slot end
end

-- The text of a session, "ttl highest", once it counts this slot among its own; nothing if it does already. A slot that
-- is only read with leaves nothing behind, so slots have gaps and a session has to know where they end.
function context.highest(text, slot)
  local ttl, highest = string.match(text, "^(%d+) ?(%d*)$")
  local place = tonumber(string.match(slot, "(%d+)$"))
  if highest == "" or place > tonumber(highest) then return ttl .. " " .. place end
end

-- Text of the elements of a reply from `from` to `upto` behind `head`, each as length:value. Most are ids, times and
-- empty texts. A reply may hold a megabyte, so all is put together in one go: each text of it is another copy.
function context.encode(head, reply, from, upto)
  if upto < from then return head end
  local out, at, format = { head, nil, nil, nil, nil, nil, nil, nil }, 1, string.format  -- as large as most need it
  for i = from, upto do
    local value = reply[i]
    if value == "" then
      at = at + 1
      out[at] = "0:"
    else
      if type(value) == "number" then value = format("%d", value) end
      local size = #value
      out[at + 1] = size == 16 and "16:" or size == 13 and "13:" or format("%d:", size)
      at = at + 2
      out[at] = value
    end
  end
  return table.concat(out)
end

-- Something changed: the history number of this call is the one its reply will carry.
function context.mark_changed()
  if not context.changed then
    context.changed = true
    context.history = context.history + 1
  end
end

-- A queue that the script needs and KEYS does not bring: said before anything is changed, see context.lacking.
function context.require(name)
  context.missing = context.missing or { status.KEYS_CHANGED, "", 0 }
  for n = 4, #context.missing do
    if context.missing[n] == name then return end
  end
  context.missing[#context.missing + 1] = name
end

-- The line of a queue (core/queue), written down with what context.close writes. `key`: the queue's first.
function context.add_header(key, text)
  context.headers = context.headers or { nil, nil }
  local last = #context.headers
  context.headers[last + 1], context.headers[last + 2] = key, text
end

-- Ends a script: saves the counters and the lines, keeps the reply under the token, returns it. reply[2] and reply[3] are filled in.
-- With `ids` only the elements up to `upto` are kept, and the ids from which the rest can be read again.
function context.close(reply, upto, ids)
  local history, format = context.history, string.format
  reply[2], reply[3] = context.incarnation, history
  local counts = context.changed and format("%d %d %d %d", history, context.seq, context.messages, context.bytes)
  local lines = context.headers or {}
  context.headers = nil
  while #lines > 2000 do
    -- A message of a topic may go to any number of queues, and unpack has its limit.
    redis.call("HSET", KEYS[1], unpack(lines, #lines - 1999))
    for n = #lines, #lines - 1999, -1 do lines[n] = nil end
  end
  if ARGV[2] == "" then
    if counts then lines[#lines + 1], lines[#lines + 2] = "counts", counts end
    if lines[1] then redis.call("HSET", KEYS[1], unpack(lines)) end
    return reply
  end
  local code = reply[1]
  local kept = ARGV[2] .. " " .. context.now_text .. " " .. (ids or "-") .. " "
    .. (code == 0 and "0" or format("%d", code)) .. " " .. format("%d", history) .. " "
  kept = context.encode(kept, reply, 4, upto or #reply)
  if counts then
    redis.call("HSET", KEYS[1], "counts", counts, ARGV[1], kept, unpack(lines))
  else
    redis.call("HSET", KEYS[1], ARGV[1], kept, unpack(lines))
  end
  if context.enlist then redis.call("HSET", KEYS[1], context.owner(), context.enlist) end
  return reply
end
