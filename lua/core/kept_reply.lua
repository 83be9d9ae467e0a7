-- The text that a session's slot keeps of its last call, field "<session>.<slot>" of meta:
--
--   "<sequence> <ms> <ids> <status> <history> <elements>"
--
--   ids       "-", or the ids of the messages that a repeated call reads again; "!" and an id: a lock that was handed to a
--             reader that had not asked for it yet (waiting/handoff). Then a line with the reply before that follows.
--   elements  "<length>:<value>" each, one behind the other
--
-- mqredis/operations/invariants.py reads it, too.
local kept_reply = {}

-- Keeps the elements of `reply` from the fourth up to place `upto`, behind the status and the history in its first and
-- third.
function kept_reply.format(sequence, ms, ids, reply, upto)
  local format, code, at = string.format, reply[1], 1
  local out = { sequence .. " " .. ms .. " " .. ids .. " " .. (code == 0 and "0" or format("%d", code))
    .. format(" %d ", reply[3]), nil, nil, nil, nil, nil, nil, nil } -- as large as most need it
  for n = 4, upto do
    local value = reply[n]
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

-- The sequence of the last call of a slot, the ids it keeps, and its status, as texts.
function kept_reply.head(text)
  return string.match(text, "^(%d+) %d+ (%S+) (%d+) ")
end

-- The number of the last call of a slot.
function kept_reply.sequence(text)
  return string.match(text, "^%d+")
end

-- What a slot keeps of the call with this sequence, without the line behind it; nothing if it keeps another's.
function kept_reply.of(text, sequence)
  local handed, before = string.match(text, "^(%d+ %d+ ![^\n]*)\n(.*)$")
  if handed then text = kept_reply.sequence(handed) == sequence and handed or before end
  if kept_reply.sequence(text) == sequence then return text end
end

-- The ids of a kept reply, and the reply itself.
function kept_reply.parse(text, incarnation)
  local ids, code, history, rest = string.match(text, "^%d+ %d+ (%S+) (%d+) (%d+) (.*)$")
  local reply, at = { tonumber(code), incarnation, tonumber(history) }, 1
  while at <= #rest do
    local colon = string.find(rest, ":", at, true)
    local size = tonumber(string.sub(rest, at, colon - 1))
    reply[#reply + 1] = string.sub(rest, colon + 1, colon + size)
    at = colon + size + 1
  end
  return ids, reply
end
