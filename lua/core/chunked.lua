--- used by admin/sweep, claims/drain, claims/fill, core/locks, core/position, core/settle, core/store and 7 more
-- Commands with many arguments. A list may be longer than what unpack gives at once, 7,999 values: a message has up to
-- four elements in the index, a transaction 1,000 messages, and a group any number of them. So a command is run for one
-- slice after the other. Most lists are one slice, and cost what the command alone would.
-- most: elements of a slice, an even number, since a score and its member stay together.
local chunked = { long = "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", most = 4000 }

-- A command that writes, with the elements of this list from `from` on, the first one if not given. None: nothing.
function chunked.run(name, key, list, from)
  for at = from or 1, #list, chunked.most do
    redis.call(name, key, unpack(list, at, math.min(at + chunked.most - 1, #list)))
  end
end

-- The values of these fields of a hash, of which there is one at least.
function chunked.read(key, fields)
  local size = #fields
  if size <= chunked.most then return redis.call("HMGET", key, unpack(fields)) end
  local found = { nil }
  for at = 1, size, chunked.most do
    local some = redis.call("HMGET", key, unpack(fields, at, math.min(at + chunked.most - 1, size)))
    for n = 1, #some do found[at + n - 1] = some[n] end
  end
  return found
end

-- ZADD and HSET of many pairs. Redis keeps a small hash or sorted set as one list and searches it from the front for each
-- pair, until an element has more than 64 bytes: so a batch begins with one, which is taken out again.

-- score, member, ...
function chunked.scores(key, list)
  local size = #list
  if size < 32 then
    redis.call("ZADD", key, unpack(list))
  else
    redis.call("ZADD", key, "0", chunked.long, unpack(list, 1, math.min(chunked.most, size)))
    redis.call("ZREM", key, chunked.long)
    if size > chunked.most then chunked.run("ZADD", key, list, chunked.most + 1) end
  end
end

-- field, value, ...
function chunked.fields(key, list)
  local size = #list
  if size < 32 or #list[2] > 64 then
    redis.call("HSET", key, unpack(list, 1, math.min(chunked.most, size)))
  else
    redis.call("HSET", key, chunked.long, chunked.long, unpack(list, 1, math.min(chunked.most, size)))
    redis.call("HDEL", key, chunked.long)
  end
  if size > chunked.most then chunked.run("HSET", key, list, chunked.most + 1) end
end
