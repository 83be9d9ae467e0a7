--- require "lib/status"
-- The frame of every script: the manager, the clock, the operation token, the envelope of the reply.
--
-- KEYS[1] meta      hash  schema, incarnation, history, seq (SequentialID), messages, bytes, quotas, throttled, clock
-- KEYS[2] sessions  hash  "<n>" a session; "<n>.<i>" its slot: last sequence and reply; "<n>.<i>!" what a waiter was handed
-- KEYS[3] txs       hash  "<id>" a transaction; "<id>:<k>" its k-th operation
-- ARGV[1] slot      ARGV[2] sequence of the operation token, "" for a script that changes nothing
--
-- A slot keeps only its last reply: the client uses a slot for one call at a time, so a repeated sequence is a
-- repeated call and gets the first answer. Refusals are kept too, else a late copy of a refused request could run.
local frame = { changed = false }

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
  frame.seq = tonumber(meta[5])
  frame.messages = tonumber(meta[6])
  frame.bytes = tonumber(meta[7])
  frame.quota_messages = tonumber(meta[8] or "")
  frame.quota_bytes = tonumber(meta[9] or "")
  frame.throttled = meta[10] == "1"
  if ARGV[2] ~= "" then return frame.token() end
end

function frame.token()
  local session = string.match(ARGV[1], "^(%d+)%.%d+$")
  local kept = redis.call("HMGET", KEYS[2], session or "", ARGV[1])
  if not kept[1] then return { status.SESSION_EXPIRED, frame.incarnation, frame.history } end
  if not kept[2] then return end
  local last, again, reply = string.match(kept[2], "^(%d+) %d+ (%S+) (.*)$")
  local ahead = tonumber(ARGV[2]) - tonumber(last)
  if ahead > 0 then return end
  if ahead < 0 then return { status.TOKEN_REUSED, frame.incarnation, frame.history } end
  reply = frame.decode(reply)
  if again == "-" then return reply end
  frame.again = { ids = again, reply = reply }
end

-- Text of the first `upto` elements of a reply, each as length:value.
function frame.encode(reply, upto)
  local out = {}
  for i = 1, upto do
    local value = reply[i]
    if type(value) == "number" then value = string.format("%.0f", value) end
    out[i] = #value .. ":" .. value
  end
  return table.concat(out)
end

function frame.decode(text)
  local reply, at = {}, 1
  while at <= #text do
    local colon = string.find(text, ":", at, true)
    local size = tonumber(string.sub(text, at, colon - 1))
    reply[#reply + 1] = string.sub(text, colon + 1, colon + size)
    at = colon + size + 1
  end
  reply[1] = tonumber(reply[1])
  reply[3] = tonumber(reply[3])
  return reply
end

-- Something changed: the history number of this call is the one its reply will carry.
function frame.touch()
  if not frame.changed then
    frame.changed = true
    frame.history = frame.history + 1
  end
end

-- Ends a script: saves the manager, keeps the reply under the token, returns it. reply[2] and reply[3] are filled in.
-- With `ids` only the first `upto` elements are kept, and the ids from which the rest can be read again.
function frame.close(reply, upto, ids)
  if frame.changed then
    redis.call("HSET", KEYS[1], "history", frame.history, "seq", frame.seq,
      "messages", frame.messages, "bytes", frame.bytes)
  end
  reply[2] = frame.incarnation
  reply[3] = frame.history
  if ARGV[2] ~= "" then
    redis.call("HSET", KEYS[2], ARGV[1], ARGV[2] .. " " .. string.format("%.0f", frame.now) .. " "
      .. (ids or "-") .. " " .. frame.encode(reply, upto or #reply))
  end
  return reply
end
