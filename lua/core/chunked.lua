--- used by admin/sweep, claims/claim_pages, claims/drain, claims/fill, core/locks, core/position, core/removal, core/session,
---   core/settle, core/store, core/timers, features/expiry, features/group_lock, features/identifiers, features/trail_store,
---   matching/arrivals, matching/mark, transactions/tx, transactions/tx_parts
-- Runs commands with lists of any length. Lua's unpack returns 7,999 values at most, and lists may be longer: a transaction has
-- 1,000 messages with up to four elements each in the index, a group any number. So a command is run for one slice of the
-- list after the other. Most lists are one slice and cost as much as the command alone. tests/matching/test_long_lists.py has
-- longer ones.
--
-- Each function that writes has the key as its first argument, or the command and the key: tests/contract/test_writers.py notes
-- there for which module a command is run.
--
-- most: elements of a slice, well below what unpack returns; even, since a score and its member must stay together
-- long: a member for a moment (chunked.scores), which no list holds. It is longer than the server's settings
--       zset-max-listpack-value and hash-max-listpack-value, whose default is 64
-- few:  elements of a list up to which such a member costs more than it saves
local chunked = { long = "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", most = 4000, few = 31 }

-- Runs a command that writes for the elements of the list. Does nothing if there are none.
function chunked.run(name, key, list)
  if #list > chunked.most then return chunked.run_from(name, key, list, 1) end
  if list[1] then redis.call(name, key, unpack(list)) end
end

-- Runs a command for the elements of the list from place `from` on. Does nothing if there are none.
function chunked.run_from(name, key, list, from)
  for at = from, #list, chunked.most do
    redis.call(name, key, unpack(list, at, math.min(at + chunked.most - 1, #list)))
  end
end

-- Returns the values of these fields of a hash; there must be one at least.
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

-- Runs ZADD for a list of score, member, ..., one pair at least. Redis keeps a small sorted set as one list, which it searches
-- from the front for each pair, until it gets a member of more than 64 bytes. So a batch begins with such a member, which is
-- removed again.
function chunked.scores(key, list)
  local size = #list
  if size <= chunked.few then
    redis.call("ZADD", key, unpack(list))
  else
    redis.call("ZADD", key, "0", chunked.long, unpack(list, 1, math.min(chunked.most, size)))
    redis.call("ZREM", key, chunked.long)
    chunked.run_from("ZADD", key, list, chunked.most + 1)
  end
end

-- Adds these members to a sorted set in which all scores are 0. Does nothing if there are none.
function chunked.add(key, members)
  if not members[1] then return end
  local elements = { nil, nil }
  for n = 1, #members do elements[n * 2 - 1], elements[n * 2] = "0", members[n] end
  chunked.scores(key, elements)
end

-- Runs HSET for a list of field, value, ..., one pair at least, in the same way: the texts of a list are about equally long, so
-- the first value tells whether Redis keeps a small hash as one list.
function chunked.fields(key, list)
  local size = #list
  if size <= chunked.few or #list[2] > 64 then
    redis.call("HSET", key, unpack(list, 1, math.min(chunked.most, size)))
  else
    redis.call("HSET", key, chunked.long, chunked.long, unpack(list, 1, math.min(chunked.most, size)))
    redis.call("HDEL", key, chunked.long)
  end
  chunked.run_from("HSET", key, list, chunked.most + 1)
end
