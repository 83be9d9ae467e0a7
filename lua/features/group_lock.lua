--- require "core/context"
--- require "core/record"
--- require "core/position"
--- require lazy "matching/index"
--- used by claims/fill, features/features, lookup, matching/search, receive, waiting/notify
-- Queues with one active message per group and fair turns between groups (option group_exclusive; q.locks_groups). In q.index:
--   "b"id NUL lid       the group is busy: this message of it is locked
--   "h"class id         the group could go on: something is available and nothing active; class: the first byte of its
--                       first lid, so that priorities come first
-- Within a class the groups take turns in the order of their ids, from field "turn"class of q.key on. What has no group
-- counts as one group, id "", that is never busy. Subqueues have no turns.
local group_lock = {}

function group_lock.group(rec)
  index.load()
  return index.fields(rec).group_id or ""
end

function group_lock.holder(q, id)
  local found = redis.call("ZRANGEBYLEX", q.index, "[b" .. id .. "\0", "(b" .. id .. "\1", "LIMIT", 0, 1)[1]
  return found and string.sub(found, -16)
end

function group_lock.busy(q, rec)
  local id = group_lock.group(rec)
  return id ~= "" and group_lock.holder(q, id) ~= nil
end

-- Puts the group among those that could go on, or takes it away. Returns its first id.
function group_lock.ready(q, id, busy)
  local stale = {}
  for class = 0, 7 do stale[class + 1] = string.format("h%02x", class) .. id end
  redis.call("ZREM", q.index, unpack(stale))
  local first = not busy and index.range(q, "g", id, "", 1)[1]
  if first then redis.call("ZADD", q.index, 0, "h" .. string.sub(first, 1, 2) .. id) end
  return first
end

-- A message whose group is busy is available, but no reader may have it yet.
function group_lock.arrive(q, batch, places)
  for k = 1, #places do
    local n = places[k]
    if not batch.fates[n] then
      local id = group_lock.group(batch.records[n])
      -- Segments of one message are locked together: the group is free when the last of them is back.
      redis.call("ZREM", q.index, "b" .. id .. "\0" .. batch.ids[n])
      if id ~= "" and group_lock.holder(q, id) then
        batch.fates[n] = "busy"
      else
        group_lock.ready(q, id)
      end
    end
  end
end

-- A locked message makes its group busy. The next one of the group has its turn when the message is gone for good.
function group_lock.leave(q, batch, places)
  for k = 1, #places do
    local lid, id = batch.ids[places[k]], group_lock.group(batch.records[places[k]])
    if batch.locked and id ~= "" then
      redis.call("ZADD", q.index, 0, "b" .. id .. "\0" .. lid)
      group_lock.ready(q, id, true)
    else
      local freed = redis.call("ZREM", q.index, "b" .. id .. "\0" .. lid) == 1
      local first = group_lock.ready(q, id, group_lock.holder(q, id) ~= nil)
      if freed and first then
        q.arrived = q.arrived or {}
        q.arrived[#q.arrived + 1] = first
      end
    end
  end
end

-- Up to `count` entries, one of each group whose turn it is.
function group_lock.take(q, count)
  index.load()
  local found, from = {}, "[h"
  while #found < count do
    local first = redis.call("ZRANGEBYLEX", q.index, from, "(i", "LIMIT", 0, 1)[1]
    if not first then return found end
    local stem = string.sub(first, 1, 3)
    local last = redis.call("HGET", q.key, "turn" .. stem)
    local heads = redis.call("ZRANGEBYLEX", q.index, last and "(" .. stem .. last or "[" .. stem, "[" .. stem .. "\255",
      "LIMIT", 0, count)
    if last then
      local rest = redis.call("ZRANGEBYLEX", q.index, "[" .. stem, "[" .. stem .. last, "LIMIT", 0, count - #heads)
      for n = 1, #rest do heads[#heads + 1] = rest[n] end
    end
    for n = 1, #heads do
      local id = string.sub(heads[n], 4)
      local e = position.read(q, index.range(q, "g", id, "", 1))[1]
      if e and #found < count and not record.is_expired(e.rec, context.now) then
        found[#found + 1] = e
        redis.call("HSET", q.key, "turn" .. stem, id)
      end
    end
    from = "(" .. stem .. "\255"
  end
  return found
end

group_lock.hooks = { arrive = group_lock.arrive, leave = group_lock.leave }
