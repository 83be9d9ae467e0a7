--- require "selector/selector"
--- used by features/topic, subscribe, subscriptions
-- Subscriptions of a topic. This module alone knows where they are stored, in the topic's hash q.key:
--
--   field "sub:<queue>", its name encoded: "<length>:<selector><program>", the text of the selector with its length in bytes, then
--   its program (selector/selector_program); "0:" selects every message. Example: "12:colour='red'" and the program
--
-- Python writes the text of a subscription (mqredis/codec/subscriptions.py; tests/contract/test_stored_texts.py compares both), and
-- it is stored as it comes. The doctor knows the fields by "sub:" (mqredis/operations/doctor/checks/policies.py). Tests:
-- tests/msmq/test_topics.py.
local subscription = {}

-- Returns selector and program of a subscription's text.
function subscription.parse(text)
  local size, rest = string.match(text, "^(%d+):(.*)$")
  return string.sub(rest, 1, size), string.sub(rest, size + 1)
end

-- Writes the subscription of the queue with this encoded name.
function subscription.save(q, name, text)
  redis.call("HSET", q.key, "sub:" .. name, text)
end

-- Removes the subscription of a queue.
function subscription.remove(q, name)
  redis.call("HDEL", q.key, "sub:" .. name)
end

-- Returns the encoded names of the subscribers in order, and the texts of their subscriptions by name.
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

-- Returns a function that tells of a record whether a subscription with this text selects the message. A message to which the
-- sender gave no id has the id "mq-" for the selector, since its copies get theirs later (topic.deliver). The time of the selector
-- (selector.allowed) is not asked for: all subscribers get what they select, or none does.
function subscription.open(text)
  local _, compiled = subscription.parse(text)
  if compiled == "" then return subscription.select_all end
  local program = selector.compile(compiled)
  return function(rec) return selector.test(program, rec, "") end
end

-- The function for a subscription without a selector.
function subscription.select_all() return true end
