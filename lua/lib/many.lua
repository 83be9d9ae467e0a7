-- ZADD and HSET of many pairs. Redis keeps a small hash or sorted set as one list and searches it from the front for each
-- pair, until an element has more than 64 bytes: so a batch begins with one, which is taken out again.
local many = { long = "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz" }

-- score, member, ...
function many.scores(key, list)
  if #list < 32 then
    redis.call("ZADD", key, unpack(list))
  else
    redis.call("ZADD", key, "0", many.long, unpack(list))
    redis.call("ZREM", key, many.long)
  end
end

-- field, value, ...
function many.fields(key, list)
  if #list < 32 or #list[2] > 64 then
    redis.call("HSET", key, unpack(list))
  else
    redis.call("HSET", key, many.long, many.long, unpack(list))
    redis.call("HDEL", key, many.long)
  end
end
