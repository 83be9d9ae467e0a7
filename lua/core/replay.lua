--- require "core/context"
-- A stored reply, for a call that is repeated: "status history elements".
local replay = {}

function replay.decode(text)
  local code, history, rest = string.match(text, "^(%d+) (%d+) (.*)$")
  local reply, at = { tonumber(code), context.incarnation, tonumber(history) }, 1
  while at <= #rest do
    local colon = string.find(rest, ":", at, true)
    local size = tonumber(string.sub(rest, at, colon - 1))
    reply[#reply + 1] = string.sub(rest, colon + 1, colon + size)
    at = colon + size + 1
  end
  return reply
end
