--- require "selector/selector"
--- used by features/topic, subscribe, subscriptions
-- Subscriptions of a topic. Used by subscribe.lua, subscriptions.lua and features/topic. This module alone knows how they are
-- stored: field "sub:<encoded name of the queue>" of the topic's hash q.key holds "<length>:<selector><program>", the length and
-- the text of the selector, then its program (selector/selector_program); "0:" selects every message. Python writes the text
-- in mqredis/codec/subscriptions.py.
local subscription = {}

-- Selector and program of a subscription's text.
function subscription.parse(text)
  local size, rest = string.match(text, "^(%d+):(.*)$")
  return string.sub(rest, 1, size), string.sub(rest, size + 1)
end

function subscription.save(q, name, text)
  redis.call("HSET", q.key, "sub:" .. name, text)
end

function subscription.remove(q, name)
  redis.call("HDEL", q.key, "sub:" .. name)
end

-- Encoded names of the subscribers in order, and the texts of their subscriptions by name.
function subscription.all(q)
  local fields, names, texts = redis.call("HGETALL", q.key), {}, {}
  for n = 1, #fields, 2 do
    local name = string.match(fields[n], "^sub:(.*)$")
    if name then
      names[#names + 1] = name
      texts[name] = fields[n + 1]
    end
  end
  table.sort(names)
  return names, texts
end

-- A function of a record that tells whether the subscriber wants the message.
function subscription.open(text)
  local _, compiled = subscription.parse(text)
  if compiled == "" then return subscription.select_all end
  local program = selector.compile(compiled)
  return function(rec) return selector.test(program, rec, "") end
end

function subscription.select_all() return true end
