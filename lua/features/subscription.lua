--- require "selector/selector"
-- Subscriptions of a topic. Kept as: the length of the selector's text, ":", the text, its program for selector/selector.
local subscription = {}

-- A function of a record that tells whether the subscriber wants the message.
function subscription.open(text)
  local size, rest = string.match(text, "^(%d+):(.*)$")
  local compiled = string.sub(rest, tonumber(size) + 1)
  if compiled == "" then return subscription.all end
  local program = selector.compile(compiled)
  return function(rec) return selector.test(program, rec, "") end
end

function subscription.all() return true end
