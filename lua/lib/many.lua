-- ZADD and HSET of many pairs. Redis keeps a small hash or sorted set as one list and searches it from the front for each
-- pair, until an element has more than 64 bytes: so a batch begins with one, which is taken out again.
local many = { long = "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz" }

-- score, member, ...
function many.scores(key, pairs)
  if #pairs < 32 then
    redis.call("ZADD", key, unpack(pairs))
  else
    redis.call("ZADD", key, "0", many.long, unpack(pairs))
    redis.call("ZREM", key, many.long)
  end
end

-- field, value, ...
function many.fields(key, pairs)
  if #pairs < 32 or #pairs[2] > 64 then
    redis.call("HSET", key, unpack(pairs))
  else
    redis.call("HSET", key, many.long, many.long, unpack(pairs))
    redis.call("HDEL", key, many.long)
  end
end
