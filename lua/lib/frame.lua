--- require "lib/status"
--- require lazy "lib/replay"
-- The frame of every script: the manager, the clock, the operation token, the envelope of the reply.
--
-- KEYS[1] meta      hash  schema, incarnation, history, seq (SequentialID), messages, bytes, quotas, throttled, clock
-- KEYS[2] sessions  hash  "<n>" a session: ttl in ms, highest slot; "<n>.<i>" its slot: last sequence and reply;
--                         "<n>.<i>!" handed to a waiter
-- KEYS[3] txs       hash  "<id>" a transaction; "<id>:<k>" its k-th operation
-- ARGV[1] slot      ARGV[2] sequence of the operation token, "" for a script that changes nothing
--
-- A slot keeps only its last reply: the client uses a slot for one call at a time, so a repeated sequence is a
-- repeated call and gets the first answer. Refusals are kept too, else a late copy of a refused request could run.
local frame = {
  changed = false, incarnation = "", history = 0, now = 0, stamp = "", seq = 0, messages = 0, bytes = 0,
  quota_messages = nil, quota_bytes = nil, throttled = false, again = nil, missing = nil, sides = nil,
  enlist = nil,
}

-- Returns the reply with which the script must end at once, or nothing. Sets frame.again when the stored reply
-- names messages that the entry script has to read again.
function frame.open()
  local meta = redis.call("HMGET", KEYS[1], "schema", "incarnation", "history", "clock", "seq",
    "messages", "bytes", "quota_messages", "quota_bytes", "throttled")
  if not meta[1] then return { status.MANAGER_NOT_FOUND, "", 0 } end
  frame.incarnation = meta[2]
  frame.history = tonumber(meta[3])
  if meta[1] ~= "1" then return { status.SCHEMA_TOO_NEW, meta[2], frame.history } end
  local time = redis.call("TIME")
  frame.now = time[1] * 1000 + math.floor(time[2] / 1000) + meta[4]
  frame.stamp = string.format("%d", frame.now)
  frame.seq = tonumber(meta[5])
  frame.messages = tonumber(meta[6])
  frame.bytes = tonumber(meta[7])
  frame.quota_messages = tonumber(meta[8] or "")
  frame.quota_bytes = tonumber(meta[9] or "")
  frame.throttled = meta[10] == "1"
  if ARGV[2] ~= "" then return frame.token() end
end

function frame.token()
  local owner = string.match(ARGV[1], "^(%d+)%.%d+$")
  local kept = redis.call("HMGET", KEYS[2], owner or "", ARGV[1])
  if not kept[1] then return { status.SESSION_EXPIRED, frame.incarnation, frame.history } end
  if not kept[2] then
    frame.enlist = frame.highest(kept[1], ARGV[1])
    return
  end
  local last, again, reply = string.match(kept[2], "^(%d+) %d+ (%S+) (%d+ %d+ .*)$")
  local ahead = tonumber(ARGV[2]) - tonumber(last)
  if ahead > 0 then return end
  if ahead < 0 then return { status.TOKEN_REUSED, frame.incarnation, frame.history } end
  -- WAIT and WAITAOF of a connection count what this connection wrote (Redis 7.2): a repeated call on a new one writes
  -- what is there already. A server that is full may refuse that; then nobody is told that the change got further.
  redis.pcall("HSET", KEYS[2], ARGV[1], kept[2])
  replay.load()
  reply = replay.decode(reply)
  if again == "-" then return reply end
  frame.again = { ids = again, reply = reply }
end

-- The text of a session, "ttl highest", once it counts this slot among its own; nothing if it does already. A slot that
-- is only read with leaves nothing behind, so slots have gaps and a session has to know where they end.
function frame.highest(text, slot)
  local ttl, highest = string.match(text, "^(%d+) ?(%d*)$")
  local place = tonumber(string.match(slot, "(%d+)$"))
  if highest == "" or place > tonumber(highest) then return ttl .. " " .. place end
end

-- Text of the elements of a reply from `from` to `upto`, each as length:value.
function frame.encode(reply, from, upto)
  if upto - from > 8 then return frame.join(reply, from, upto) end
  local text = ""
  for i = from, upto do
    local value = reply[i]
    if type(value) == "number" then value = string.format("%d", value) end
    text = text .. frame.size(value) .. value
  end
  return text
end

-- The same for many: a text that grows piece by piece would be copied each time.
function frame.join(reply, from, upto)
  local out = {}
  for i = from, upto do
    local value = reply[i]
    if type(value) == "number" then value = string.format("%d", value) end
    out[#out + 1] = frame.size(value)
    out[#out + 1] = value
  end
  return table.concat(out)
end

-- Length and colon. Most are ids, times and empty texts.
function frame.size(value)
  local size = #value
  if size == 16 then return "16:" end
  if size == 13 then return "13:" end
  if size == 0 then return "0:" end
  return string.format("%d:", size)
end

-- Something changed: the history number of this call is the one its reply will carry.
function frame.touch()
  if not frame.changed then
    frame.changed = true
    frame.history = frame.history + 1
  end
end

-- A queue that the script needs and KEYS does not bring: said before anything is changed, see frame.lacking.
function frame.lack(name)
  frame.missing = frame.missing or { status.KEYS_CHANGED, "", 0 }
  for n = 4, #frame.missing do
    if frame.missing[n] == name then return end
  end
  frame.missing[#frame.missing + 1] = name
end

-- Ends a script: saves the manager, keeps the reply under the token, returns it. reply[2] and reply[3] are filled in.
-- With `ids` only the elements up to `upto` are kept, and the ids from which the rest can be read again.
function frame.close(reply, upto, ids)
  local history = string.format("%d", frame.history)
  if frame.changed then
    redis.call("HSET", KEYS[1], "history", history, "seq", string.format("%d", frame.seq),
      "messages", string.format("%d", frame.messages), "bytes", string.format("%d", frame.bytes))
  end
  reply[2] = frame.incarnation
  reply[3] = frame.history
  if ARGV[2] ~= "" then
    local kept = table.concat({ ARGV[2], frame.stamp, ids or "-",
      reply[1] == 0 and "0" or string.format("%d", reply[1]), history, frame.encode(reply, 4, upto or #reply) }, " ")
    if frame.enlist then
      redis.call("HSET", KEYS[2], ARGV[1], kept, string.match(ARGV[1], "^%d+"), frame.enlist)
    else
      redis.call("HSET", KEYS[2], ARGV[1], kept)
    end
  end
  return reply
end
