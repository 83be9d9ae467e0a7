--- require "core/cache"
--- require "core/chunked"
--- require "core/context"
--- require "core/message_state"
--- require "core/queue"
--- used by claims/claim_pages, core/position, core/queue, core/settle, core/timers, lock_list
-- How the locks of readers are stored. What one call of a reader has locked is one entry of the queue's header as long as
-- nothing else has to be known of it; the header ends with all of them:
--
--   one message   " fence,size,deadline,slot,id"
--   several       " fence", and beside the header, in meta:
--                 "lock:<fence>"  "deadline bytes size slot ids": size of each message, 0 if they differ; 16 digits each id
--
-- Such messages are locked with kind L and delivered once, and their end needs no look at their records; they have no state
-- and are not in q.locked. Only this module knows of them. All other locks, and these once they are expanded, are elements of q.locked
-- with a state each (core/message_state). To expand says nothing new, so that may come before a refusal. It takes 1.5
-- microseconds a message, so there is a limit of texts beside a header.
--
-- texts: so many of them. room: with fewer bytes of locks a header takes one more; to read and write more costs as much as
-- a text beside it.
local locks = { texts = 32, room = 512 }

-- Locks messages that are in no list, of `bytes` bytes in all, `size` each (0 if they differ). False if there is no room
-- for that: then they need states.
function locks.take(q, ids, bytes, size, slot, fence, deadline)
  local format = string.format
  if #ids == 1 and #q.locks < locks.room then
    q.locks = q.locks .. " " .. fence .. format(",%d,", size) .. deadline .. "," .. slot .. "," .. ids[1]
  elseif q.lock_texts < locks.texts then
    local text = table.concat(ids)
    if ids[2] then cache.keep(cache.ids, text, ids, 64) end
    q.locks, q.lock_texts = q.locks .. " " .. fence, q.lock_texts + 1
    context.write("lock:" .. fence, deadline .. format(" %d %d ", bytes, size) .. slot .. " " .. text)
  else
    return false
  end
  q.changed = true
  queue.set_timer(q, deadline)
  return true
end

-- Ends the lock under this fence if it is an entry of the header and covers just these ids (16 digits each, one behind the
-- other, in their order). Returns the bytes of the messages and their ids, or nothing. A lock of several of which these ids
-- are only a part is expanded.
function locks.give(q, fence, text)
  if q.locks == "" then return end
  local from, to = string.find(q.locks, " " .. fence .. ",", 1, true)
  if from then
    local size, id, stop = string.match(q.locks, "^(%d+),%d+,[%d.]+,(%x+)()", to + 1)
    if id ~= text then return end
    q.locks, q.changed = string.sub(q.locks, 1, from - 1) .. string.sub(q.locks, stop), true
    return size + 0, { id }
  end
  local rest = locks.without(q.locks, fence)
  if not rest then return end
  local kept = redis.call("HGET", KEYS[1], "lock:" .. fence) or ""
  local bytes, at = string.match(kept, "^%d+ (%d+) %d+ %S+ ()")
  if not bytes or #kept ~= at + #text - 1 or not string.find(kept, text, at, true) then
    return locks.expand_text(q, fence, rest, kept)
  end
  redis.call("HDEL", KEYS[1], "lock:" .. fence)
  q.locks, q.lock_texts, q.changed = rest, q.lock_texts - 1, true
  return bytes + 0, locks.ids(text)
end

-- The ids of a text. What was locked together is mostly settled together.
function locks.ids(text)
  local ids = cache.ids[text]
  if ids then return ids end
  ids = { nil }
  for n = 1, #text, 16 do ids[(n + 15) / 16] = string.sub(text, n, n + 15) end
  return ids
end

-- These entries without that of a text beside the header; nothing if there is none with this fence.
function locks.without(entries, fence)
  local padded = entries .. " "
  local from, to = string.find(padded, " " .. fence .. " ", 1, true)
  if from then return string.sub(padded, 1, from - 1) .. string.sub(padded, to, -2) end
end

-- Expands the text of this fence, which was read; `rest`: the other entries of the header.
function locks.expand_text(q, fence, rest, text)
  if not locks.unpack(q, fence, text) then return end
  q.locks, q.lock_texts = rest, q.lock_texts - 1
  queue.write(q)
end

-- Expands all entries of the header.
function locks.expand(q)
  if q.locks == "" then return end
  local leases, states = { nil, nil }, { nil, nil }
  for entry in string.gmatch(q.locks, "[^ ]+") do
    local fence, size, deadline, slot, id = string.match(entry, "^(%d+),(%d+),(%d+),([^,]+),(%x+)$")
    if fence then
      local last = #leases
      leases[last + 1], leases[last + 2] = deadline, id
      states[last + 1], states[last + 2] = id, message_state.first(size, "LN", slot, fence)
    else
      locks.unpack(q, entry, redis.call("HGET", KEYS[1], "lock:" .. entry))
    end
  end
  if leases[1] then
    redis.call("ZADD", q.locked, unpack(leases))
    redis.call("HSET", q.states, unpack(states))
  end
  q.locks, q.lock_texts = "", 0
  queue.write(q)
end

-- The messages of the text of this fence get their states and elements of q.locked. False if the text is not sound: the doctor
-- tells of it.
function locks.unpack(q, fence, text)
  local deadline, size, slot, joined = string.match(text or "", "^(%d+) %d+ (%d+) (%S+) (%x+)$")
  if not joined then return false end
  local leases, states, ids = { nil, nil }, { nil, nil }, locks.ids(joined)
  local state = size ~= "0" and message_state.first(size, "LN", slot, fence)
  for n = 1, #ids do
    local id = ids[n]
    leases[n * 2 - 1], leases[n * 2], states[n * 2 - 1] = deadline, id, id
    states[n * 2] = state or message_state.first(redis.call("HSTRLEN", q.records, id), "LN", slot, fence)
  end
  chunked.scores(q.locked, leases)
  chunked.fields(q.states, states)
  redis.call("HDEL", KEYS[1], "lock:" .. fence)
  return true
end

-- Of what one call locked together each entry as {fence, deadline, slot, text}, with the deadline as a number and the ids one
-- behind the other in the text. Nothing is expanded.
function locks.list(q)
  local list = { nil }
  for entry in string.gmatch(q.locks, "[^ ]+") do
    local fence, deadline, slot, text = string.match(entry, "^(%d+),%d+,(%d+),([^,]+),(%x+)$")
    if not fence then
      fence = entry
      deadline, slot, text = string.match(redis.call("HGET", KEYS[1], "lock:" .. entry) or "",
        "^(%d+) %d+ %d+ (%S+) (%x+)$")
    end
    if text then list[#list + 1] = { fence = fence, deadline = deadline + 0, slot = slot, text = text } end
  end
  return list
end

-- When the first of these entries lapses, in ms; nothing if there is none.
function locks.first_deadline(q)
  local list, first = locks.list(q), nil
  for n = 1, #list do
    if not first or list[n].deadline < first then first = list[n].deadline end
  end
  return first
end

-- Up to `count` or a few more messages of such entries, by deadline and id, behind this deadline and id ("" from the front):
-- a list of {id, deadline, fence, slot}.
function locks.page(q, deadline, id, count)
  local list, found, last = locks.list(q), { nil }, nil
  local from = tonumber(deadline) or -1
  table.sort(list, function(left, right) return left.deadline < right.deadline end)
  for n = 1, #list do
    local entry, left = list[n], count
    if #found >= count and entry.deadline > last then break end
    local at = entry.deadline < from and #entry.text + 1 or 1
    while at <= #entry.text and left > 0 do
      local own = string.sub(entry.text, at, at + 15)
      if entry.deadline > from or own > id then
        found[#found + 1] = { id = own, deadline = entry.deadline, fence = entry.fence, slot = entry.slot }
        left, last = left - 1, entry.deadline
      end
      at = at + 16
    end
  end
  return found
end

-- How many messages the entries of the header hold.
function locks.count(q)
  local list, count = locks.list(q), 0
  for n = 1, #list do count = count + #list[n].text / 16 end
  return count
end
