--- require "core/cache"
--- require "core/chunked"
--- require "core/context"
--- require lazy "core/message_state"
--- require "core/queue"
--- used by claims/claim_pages, claims/drain, claims/loosen, core/position, core/queue, core/settle, core/timers, lock_list
-- Locks in the header of a queue: what one call of a reader has locked is one entry at the end of the header (core/queue), which
-- is written in any case, instead of an element of q.locked and a state for each message. Only this module reads and writes
-- these entries, and the fields of meta that belong to them:
--
--   one message       entry " <fence>,<bytes>,<deadline>,<slot>,<id>"
--                     example: " 4711,182,1764000030000,12.0,040000000000002a"
--   several messages  entry " <fence>", and field "lock:<fence>" of meta: "<deadline> <bytes> <size> <slot> <ids>"
--                     example: " 4712" and "1764000030000 364 182 12.0 040000000000002b040000000000002c"
--
--   fence     the number of the call that made the lock
--   deadline  ms at which the lease ends
--   slot      of the reader
--   bytes     of all messages; size: bytes of each of them, 0 if they differ
--   ids       lookup ids, 16 digits each, nothing between them, in the order in which they were locked
--
-- An entry says that its messages are locked by a reader, were delivered once, and that their records need not be read when
-- the lock ends (position.end_reads_record). As soon as anything else has to be said of one of them, or a script has to read
-- the state of one, the entry is expanded: each message gets its element of q.locked and its state (core/message_state).
-- That changes nothing in what the store means, so a script may do it before it refuses a call.
--
-- Change together with: outside of the scripts the entries and the texts are read by mqredis/codec/locks.py
-- (tests/spark/test_batch.py compares), and by the doctor: `_HEADER` in mqredis/operations/doctor/snapshot.py, `_LOCKS` in its
-- checks/queues.py. What an entry says of a message must stay what message_state.first says, which readers are shown
-- (message_state.locked_once). tests/client/test_packed_locks.py tests both forms and what other calls do with them.
--
-- In this module a lock is a table {fence, deadline, slot, bytes, size, ids, field}: deadline and bytes as numbers, all else as
-- texts; `field` of meta, false if the entry says all.
--
-- A function that changes the entries sets q.changed, so that the header is written when the script ends. A function that also
-- writes states or elements of q.locked writes the header at once (queue.write).
--
-- most_fields      fields of meta for a queue, since to expand takes 1.5 microseconds a message
-- most_entry_bytes bytes of entries up to which a header takes one more of one message; beyond, it costs less to write a field
local locks = { most_fields = 32, most_entry_bytes = 512 }

-- Locks messages that are in no list. `lock`: of position.lock; its owner is the reader's slot. Returns false, and does nothing, if
-- there is no room: then the messages need states.
function locks.add(q, ids, recs, lock)
  if not q.messages then return false end -- the header is lost (core/queue), and is not written
  local slot, fence, deadline = lock.owner, lock.fence, lock.deadline
  local format, size = string.format, #recs[1]
  if #ids == 1 and #q.locks < locks.most_entry_bytes then
    q.locks = q.locks .. " " .. fence .. format(",%d,", size) .. deadline .. "," .. slot .. "," .. ids[1]
  elseif q.lock_texts < locks.most_fields then
    local text, bytes = table.concat(ids), 0
    for n = 1, #recs do
      bytes = bytes + #recs[n]
      if #recs[n] ~= #recs[1] then size = 0 end
    end
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

-- Returns the lock of an entry; nil if its field of meta is missing or damaged, which the doctor reports.
function locks.parse(entry)
  local fence, bytes, deadline, slot, ids = string.match(entry, "^(%d+),(%d+),(%d+),([^,]+),(%x+)$")
  if fence then
    return { fence = fence, deadline = deadline + 0, slot = slot, bytes = bytes + 0, size = bytes,
      ids = ids, field = false }
  end
  local field = "lock:" .. entry
  local until_ms, total, size, owner, joined =
    string.match(redis.call("HGET", KEYS[1], field) or "", "^(%d+) (%d+) (%d+) (%S+) (%x+)$")
  if not joined then return end
  return { fence = entry, deadline = until_ms + 0, slot = owner, bytes = total + 0, size = size,
    ids = joined, field = field }
end

-- Returns all locks of the header.
function locks.list(q)
  local list = { nil }
  for entry in string.gmatch(q.locks, "[^ ]+") do list[#list + 1] = locks.parse(entry) end
  return list
end

-- Takes the lock with this fence out of the header, if `ids` are its messages, all of them and in their order: then they are in
-- no list, and their bytes are returned. Returns nil if the header has no such lock, or a damaged one; and if the lock is of
-- other messages, too, which has expanded it. Then the caller goes on with the states.
function locks.take_out(q, fence, ids)
  local from, stop, bytes, id = string.find(q.locks, " " .. fence .. ",(%d+),%d+,[^,]+,(%x+)")
  if id == ids then -- most locks are of one message, and need not be parsed
    q.locks = string.sub(q.locks, 1, from - 1) .. string.sub(q.locks, stop + 1) -- removal.delete_locked sets q.changed
    return bytes + 0
  end
  local entry = from and string.sub(q.locks, from + 1, stop) or fence
  from = from or string.find(q.locks .. " ", " " .. fence .. " ", 1, true)
  local lock = from and locks.parse(entry)
  if not lock then return end
  q.locks, q.changed = string.sub(q.locks, 1, from - 1) .. string.sub(q.locks, from + 1 + #entry), true
  locks.forget_field(q, lock)
  if lock.ids == ids then return lock.bytes end
  locks.write_states(q, { lock })
  queue.write(q)
end

-- Deletes the field of meta of a lock that has one.
function locks.forget_field(q, lock)
  if not lock.field then return end
  redis.call("HDEL", KEYS[1], lock.field)
  q.lock_texts = q.lock_texts - 1
end

-- Returns ids that stand one behind the other in a text as a list, which must not be changed; an empty one for "". What was locked
-- together is mostly settled together, so locks.add keeps its list. The pages of claims are such texts, too.
function locks.ids(text)
  if #text == 16 then return { text } end
  if cache.ids[text] then return cache.ids[text] end
  local ids = { nil }
  for n = 1, #text, 16 do ids[(n + 15) / 16] = string.sub(text, n, n + 15) end
  return ids
end

-- Expands all locks. Other modules call queue.expand_locks. A damaged lock has nothing to expand: the doctor finds its messages
-- without a state, in no list.
function locks.expand(q)
  local list = locks.list(q)
  for n = 1, #list do locks.forget_field(q, list[n]) end
  q.locks, q.lock_texts = "", 0
  locks.write_states(q, list)
  queue.write(q)
end

-- Writes the elements of q.locked and the states for the messages of these locks.
function locks.write_states(q, list)
  local leases, states, last = { nil, nil }, { nil, nil }, 0
  for n = 1, #list do
    local lock, ids = list[n], locks.ids(list[n].ids)
    for k = 1, #ids do
      local size = lock.size ~= "0" and lock.size or redis.call("HSTRLEN", q.records, ids[k])
      leases[last + 1], leases[last + 2] = lock.deadline, ids[k]
      states[last + 1] = ids[k]
      states[last + 2] = message_state.first(size, message_state.plain_reader, lock.slot, lock.fence)
      last = last + 2
    end
  end
  if not leases[1] then return end
  chunked.scores(q.locked, leases)
  chunked.fields(q.states, states)
end

-- Returns the earliest deadline, in ms; nil if there is no lock.
function locks.first_deadline(q)
  local list, first = locks.list(q), nil
  for n = 1, #list do first = math.min(first or list[n].deadline, list[n].deadline) end
  return first
end

-- Returns locked messages as tables {id, deadline, fence, slot}: those behind `deadline` and `id` ("" and "" from the front) in
-- the order of deadline and id. The first `count` of them are in the list, which may be longer, and has no order.
function locks.page(q, deadline, id, count)
  local list, found, from = locks.list(q), { nil }, tonumber(deadline) or -1
  table.sort(list, function(left, right) return left.deadline < right.deadline end)
  for n = 1, #list do
    local lock, ids = list[n], locks.ids(list[n].ids)
    if #found >= count and lock.deadline > found[#found].deadline then break end
    for k = 1, #ids do
      if lock.deadline > from or lock.deadline == from and ids[k] > id then
        found[#found + 1] = { id = ids[k], deadline = lock.deadline, fence = lock.fence, slot = lock.slot }
      end
    end
  end
  return found
end

-- Returns how many messages the locks hold.
function locks.count(q)
  local list, count = locks.list(q), 0
  for n = 1, #list do count = count + #list[n].ids / 16 end
  return count
end
