-- Commands with many arguments. A list may be longer than what unpack gives at once, 7,999 values: a message has up to
-- four elements in the index, a transaction 1,000 messages, and a group any number of them. So a command is run for one
-- slice after the other. Most lists are one slice, and cost what the command alone would.
-- most: elements of a slice, an even number, since a score and its member stay together.
local many = { long = "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", most = 4000 }

-- A command that writes, with the elements of this list from `from` on, the first one if not given. None: nothing.
function many.run(name, key, list, from)
  for at = from or 1, #list, many.most do
    redis.call(name, key, unpack(list, at, math.min(at + many.most - 1, #list)))
  end
end

-- The values of these fields of a hash, of which there is one at least.
function many.read(key, fields)
  local size = #fields
  if size <= many.most then return redis.call("HMGET", key, unpack(fields)) end
  local found = { nil }
  for at = 1, size, many.most do
    local some = redis.call("HMGET", key, unpack(fields, at, math.min(at + many.most - 1, size)))
    for n = 1, #some do found[at + n - 1] = some[n] end
  end
  return found
end

-- ZADD and HSET of many pairs. Redis keeps a small hash or sorted set as one list and searches it from the front for each
-- pair, until an element has more than 64 bytes: so a batch begins with one, which is taken out again.

-- score, member, ...
function many.scores(key, list)
  local size = #list
  if size < 32 then
    redis.call("ZADD", key, unpack(list))
  else
    redis.call("ZADD", key, "0", many.long, unpack(list, 1, math.min(many.most, size)))
    redis.call("ZREM", key, many.long)
    if size > many.most then many.run("ZADD", key, list, many.most + 1) end
  end
end

-- field, value, ...
function many.fields(key, list)
  local size = #list
  if size < 32 or #list[2] > 64 then
    redis.call("HSET", key, unpack(list, 1, math.min(many.most, size)))
  else
    redis.call("HSET", key, many.long, many.long, unpack(list, 1, math.min(many.most, size)))
    redis.call("HDEL", key, many.long)
  end
  if size > many.most then many.run("HSET", key, list, many.most + 1) end
end
