--- require "core/cache"
--- require "core/chunked"
--- require "core/context"
--- require "core/message_state"
--- require "core/queue"
--- used by claims/claim_pages, core/position, core/queue, core/settle, core/timers, lock_list
-- Locks in the header of a queue. What one call of a reader has locked is kept as one entry at the end of the header
-- (core/queue), which is written in any case, instead of an element of q.locked and a state for each message. Only this module
-- reads and writes these entries.
--
--   one message       " fence,size,deadline,slot,id"
--   several messages  " fence", and a text beside the header, the field "lock:<fence>" of meta:
--                     "deadline bytes size slot ids"; bytes of all, size of each message or 0 if they differ, 16 digits
--                     for each id
--
-- An entry says that its messages are locked by a reader, were delivered once, and that their end needs no look at their
-- records. As soon as anything else has to be said of them, or a script has to read the state of one, the entries are
-- expanded: each message gets its element of q.locked and its state (core/message_state). That changes nothing in what the
-- store means, so a script may do it before it refuses a call.
--
-- texts  limit of texts beside a header, since to expand takes 1.5 microseconds a message
-- room   bytes of entries up to which a header takes one more; beyond, it costs less to write a text beside it
local locks = { texts = 32, room = 512 }

-- Locks messages that are in no list, of `bytes` bytes in all, `size` each (0 if they differ). Returns false, and does nothing,
-- if there is no room: then the messages need states.
function locks.take(q, ids, bytes, size, slot, fence, deadline)
  if not q.messages then return false end -- the header is lost (core/queue), and would not be written
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

-- Ends the lock with this fence if it is an entry of the header and has exactly these ids (`text`: 16 digits each, in their
-- order). Returns the bytes of the messages and their ids; nil if it did not end the lock. A lock of several messages of which
-- these are a part is expanded.
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

-- Returns the ids of a text as a list. What was locked together is mostly settled together, so the list is kept.
function locks.ids(text)
  local ids = cache.ids[text]
  if ids then return ids end
  ids = { nil }
  for n = 1, #text, 16 do ids[(n + 15) / 16] = string.sub(text, n, n + 15) end
  return ids
end

-- Returns `entries` without that of the text with this fence; nil if there is none.
function locks.without(entries, fence)
  local padded = entries .. " "
  local from, to = string.find(padded, " " .. fence .. " ", 1, true)
  if from then return string.sub(padded, 1, from - 1) .. string.sub(padded, to, -2) end
end

-- Expands the lock with this fence. `text`: its text beside the header; `rest`: the other entries of the header.
function locks.expand_text(q, fence, rest, text)
  if not locks.unpack(q, fence, text) then return end
  q.locks, q.lock_texts = rest, q.lock_texts - 1
  queue.write(q)
end

-- Expands all entries of the header: each message gets its element of q.locked and its state.
function locks.expand(q)
  if q.locks == "" then return end
  local leases, states = { nil, nil }, { nil, nil }
  for entry in string.gmatch(q.locks, "[^ ]+") do
    local fence, size, deadline, slot, id = string.match(entry, "^(%d+),(%d+),(%d+),([^,]+),(%x+)$")
    if fence then
      local last = #leases
      leases[last + 1], leases[last + 2] = deadline, id
      states[last + 1], states[last + 2] = id, message_state.first(size, message_state.plain_reader, slot, fence)
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

-- Expands one text beside the header. Returns false if the text is damaged, which the doctor reports.
function locks.unpack(q, fence, text)
  local deadline, size, slot, joined = string.match(text or "", "^(%d+) %d+ (%d+) (%S+) (%x+)$")
  if not joined then return false end
  local leases, states, ids = { nil, nil }, { nil, nil }, locks.ids(joined)
  local state = size ~= "0" and message_state.first(size, message_state.plain_reader, slot, fence)
  for n = 1, #ids do
    local id = ids[n]
    leases[n * 2 - 1], leases[n * 2], states[n * 2 - 1] = deadline, id, id
    states[n * 2] = state
      or message_state.first(redis.call("HSTRLEN", q.records, id), message_state.plain_reader, slot, fence)
  end
  chunked.scores(q.locked, leases)
  chunked.fields(q.states, states)
  redis.call("HDEL", KEYS[1], "lock:" .. fence)
  return true
end

-- Returns the entries of the header as tables {fence, deadline, slot, text}: the deadline as a number, the ids of the messages
-- one behind the other in `text`. Expands nothing.
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

-- Returns the earliest deadline of the entries, in ms; nil if there is no entry.
function locks.first_deadline(q)
  local list, first = locks.list(q), nil
  for n = 1, #list do
    if not first or list[n].deadline < first then first = list[n].deadline end
  end
  return first
end

-- Returns `count` or a few more messages that the entries hold, as {id, deadline, fence, slot}, in the order of deadline and id,
-- behind `deadline` and `id` ("" and "" from the front).
function locks.page(q, deadline, id, count)
  local list, found, last = locks.list(q), { nil }, nil
  local from = tonumber(deadline) or -1
  table.sort(list, function(left, right) return left.deadline < right.deadline end)
  for n = 1, #list do
    local entry, left, own = list[n], count, { nil }
    if #found >= count and entry.deadline > last then break end
    local size = entry.deadline < from and 0 or #entry.text
    for at = 1, size, 16 do own[#own + 1] = string.sub(entry.text, at, at + 15) end
    table.sort(own) -- segments that were locked together stand in their own order
    for k = 1, #own do
      if left > 0 and (entry.deadline > from or own[k] > id) then
        found[#found + 1] = { id = own[k], deadline = entry.deadline, fence = entry.fence, slot = entry.slot }
        left, last = left - 1, entry.deadline
      end
    end
  end
  return found
end

-- Returns how many messages the entries of the header hold.
function locks.count(q)
  local list, count = locks.list(q), 0
  for n = 1, #list do count = count + #list[n].text / 16 end
  return count
end
