--- require "core/context"
--- require "matching/index"
--- require lazy "core/message_state"
--- require "core/queue"
--- require lazy "core/record"
--- require "core/timers"
--- require "claims/claim_pages"
--- require "admin/audit_claims"
--- used by audit
-- Reads every key of the manager and of the queues in KEYS for the doctor, page by page: audit.lua calls audit.keys once, and then
-- audit.page for each key until it is read. Each row describes one item at one moment, so a page is consistent. Two pages are
-- consistent with each other if the history number is the same. The script has "KEYS admin": the queues begin behind
-- queue.admin_keys keys.
--
-- A row is a letter, the number of its elements, and the elements (mqredis/operations/doctor/snapshot.py reads them):
--
--   K key type ttl_ms       a key that exists
--   H key field value       a field of meta, queues, txs, or of the properties of a queue
--   Z key member score      an element of handles, idle, or of the waiters of a queue
--   M key id size head large available deadline state expiry delay visible expires
--                           a message: size of its record, head of the record, size of a large body; then the scores of its
--                           elements in available, locked, timers and index, and its state; and when it expires; "" for what is
--                           missing. Deadline and state of a message in a packed page of a claim are computed
--   B key id size           a large body without a record
--   X key member            an element missing from the index
--   T key member score      a timer of a retry policy or of a dedup key
--   S key member score      an element of available or index whose score is not 0: reads rely on equal scores
--   O key member value      an element of available, locked, states, timers or index that belongs to no message; of the index,
--                           to none that is available; or a state that is an empty text
--
-- Change together with: _ROWS in mqredis/operations/doctor/snapshot.py, for another row or element; mqredis/keys.py and
-- core/queue, for another key (tests/contract/test_arguments.py compares the rows and `types`);
-- tests/doctor/test_planted_faults.py, which damages each item.
--
-- A queue is damaged if one of its keys has another type than it should have; then nothing but rows K is read of it. In this
-- module `q` is a table of the names of a queue's keys, as core/queue has them, since a queue without a sound header has no table
-- of core/queue. `reply` is the reply of the script, to which rows are appended.
--
-- types: of keys, by the text after their last colon.
local audit = { types = { meta = "hash", txs = "hash", queues = "hash", handles = "zset",
  idle = "zset", q = "hash", a = "zset", l = "zset", m = "hash", s = "hash", t = "zset", w = "zset", i = "zset" } }

-- Keys ------------------------------------------------------------------------------------------------------------------

-- Returns the text after the last colon of a key.
function audit.part(key) return string.match(key, "([^:]*)$") end

-- Returns the type of a key, "none" if it does not exist.
function audit.type(key)
  local kind = redis.call("TYPE", key)
  return type(kind) == "table" and kind.ok or kind
end

-- Returns the queue whose keys begin at place `first` of KEYS; one table for all pages of a call.
function audit.queue(first)
  context.audited = context.audited or {}
  local q = context.audited[first]
  if not q then
    q = { key = KEYS[first], available = KEYS[first + 1], locked = KEYS[first + 2], records = KEYS[first + 3],
      states = KEYS[first + 4], timers = KEYS[first + 5], waiters = KEYS[first + 6], index = KEYS[first + 7] }
    context.audited[first] = q
  end
  return q
end

-- Have all keys of the queue that begin at this place the type that they should have? A key may be missing.
function audit.has_valid_types(first)
  for n = first, first + queue.parts - 1 do
    local kind = audit.type(KEYS[n])
    if kind ~= "none" and kind ~= audit.types[audit.part(KEYS[n])] then return false end
  end
  return true
end

-- Pages -----------------------------------------------------------------------------------------------------------------

-- Appends a row to the reply.
function audit.row(reply, letter, ...)
  context.append(reply, letter, select("#", ...), ...)
end

-- Appends a row for each key that exists.
function audit.keys(reply)
  for n = 1, #KEYS do
    local kind = audit.type(KEYS[n])
    if kind ~= "none" then audit.row(reply, "K", KEYS[n], kind, redis.call("PTTL", KEYS[n])) end
  end
end

-- Reads a page of the key at place `at` of KEYS, from `cursor` of a scan on. Returns the next cursor, "0" at the end, and the
-- number of elements read, about `budget`.
function audit.page(reply, at, cursor, budget)
  local key, part = KEYS[at], audit.part(KEYS[at])
  local kind = audit.type(key)
  if kind == "none" then return "0", 0 end
  if at <= queue.admin_keys then -- a key of the manager
    if kind ~= audit.types[part] then return "0", 0 end
    return audit.scan(reply, key, part, kind, cursor, budget)
  end
  local first = at - (at - 1 - queue.admin_keys) % queue.parts -- the place of the queue's first key
  if not audit.has_valid_types(first) then return "0", 0 end
  audit.expand_locks(first)
  local q = audit.queue(first)
  if key == q.records then return audit.records(reply, q, cursor, budget) end
  if key == q.key or key == q.waiters then return audit.scan(reply, key, part, kind, cursor, budget) end
  -- Available, locked, states, timers or index, whose elements belong to messages.
  local found = redis.call(kind == "hash" and "HSCAN" or "ZSCAN", key, cursor, "COUNT", budget)
  local items = found[2]
  for n = 1, #items, 2 do audit.element(reply, q, key, items[n], items[n + 1]) end
  return found[1], #items / 2
end

-- Reads a page of a key whose elements belong to no message.
function audit.scan(reply, key, part, kind, cursor, budget)
  local found = redis.call(kind == "hash" and "HSCAN" or "ZSCAN", key, cursor, "COUNT", budget)
  local items, letter = found[2], kind == "hash" and "H" or "Z"
  for n = 1, #items, 2 do
    local name, value = items[n], items[n + 1]
    -- Of slots and texts of locks in meta the beginning is enough.
    if part == "meta" and string.find(name, "^[%dl]") then value = string.sub(value, 1, 96) end
    audit.row(reply, letter, key, name, value)
  end
  return found[1], #items / 2
end

-- Expands packed locks into one entry for each message. This is a write, and they stay so (core/locks).
function audit.expand_locks(first)
  queue.open(queue.number(first, queue.admin_keys), queue.admin_keys)
end

-- Elements of a queue ---------------------------------------------------------------------------------------------------

-- Appends a row for an element of available, locked, states, timers or index, if it is a policy's timer or is wrong.
function audit.element(reply, q, key, member, value)
  local is_valid
  if key == q.timers and audit.is_policy_timer(member) then
    audit.row(reply, "T", key, member, value)
    is_valid = true
  elseif key == q.index then
    is_valid = audit.is_indexed(q, member)
  elseif key == q.states and claim_pages.parse_field(member) then
    is_valid = audit_claims.is_page(q, member)
  else
    local id = key == q.timers and string.sub(member, 2) or member
    is_valid = redis.call("HEXISTS", q.records, id) == 1 and value ~= ""
  end
  if not is_valid then return audit.row(reply, "O", key, member, value) end
  -- The members whose score is 0: all of available, of the index those that are made from messages.
  if (key == q.available or key == q.index and string.find(member, "^[mcgnv]")) and tonumber(value) ~= 0 then
    audit.row(reply, "S", key, member, value)
  end
end

-- Is this a timer of features/retry, or of a dedup key?
function audit.is_policy_timer(member)
  local letter, letters = string.sub(member, 1, 1), timers.letters
  return letter == letters.rest or letter == letters.rest_isolated or letter == letters.isolated
    or letter == letters.poison or letter == letters.dedup_key
end

-- Is this a member that an available message has in the index, or is the member of another kind?
function audit.is_indexed(q, member)
  local letter, id = string.sub(member, 1, 1), index.lookup_id(member)
  if letter == "v" then return redis.call("ZSCORE", q.locked, string.sub(member, 2)) end -- locked, but visible to peeks
  if not id then return true end
  local rec = redis.call("ZSCORE", q.available, id) and redis.call("HGET", q.records, id)
  for _, own in ipairs(rec and audit.members(q, id, rec) or {}) do
    if own == member then return true end
  end
  return false
end

-- Returns the members that an available message may have in the index. With `must`, those that it must have: of an index that
-- is "part" (matching/index_build) those of message and correlation ids need not be there.
function audit.members(q, id, rec, must)
  local members = {}
  if not audit.is_sound(rec) or not record.is_special(rec) then return members end
  local flags, stored = unpack(redis.call("HMGET", q.key, "flags", "index"))
  local indexed = must and stored == "part" and queue.never or queue.reach(stored or "")
  local _, subqueue = queue.split_name(queue.name(q))
  local has_parent = subqueue and subqueue ~= "journal" -- as queue.set_parent says
  -- By its letter (queue_config.letters), since queue_config.parse_options fails if another one is damaged.
  local locks_groups = not has_parent and string.find(flags or "", "x", 1, true) ~= nil
  local described = { records = q.records, locks_groups = locks_groups, indexed = indexed }
  index.append(members, described, id, rec, record.keys(rec))
  return members
end

-- Messages --------------------------------------------------------------------------------------------------------------

-- Has the record a time of arrival, a flag and a head, so that core/record can read it?
function audit.is_sound(rec)
  return string.find(rec, "^%d%d%d%d%d%d%d%d%d%d%d%d%d[0-9a-v][^%z]*%z") ~= nil
end

-- Returns when the message expires, in ms, "" if it never does. Of a record that cannot be read it is the time of its timer, since
-- nothing says that this is wrong.
function audit.expires(rec, timer)
  if not audit.is_sound(rec) then return timer end
  if not record.is_special(rec) then return "" end
  local is_read, expires_at = pcall(record.expires, rec)
  if not is_read then return timer end
  return expires_at and string.format("%d", expires_at) or ""
end

-- Reads a page of the records of a queue: about a megabyte of them, as far as the queue's counters are right.
function audit.records(reply, q, cursor, budget)
  local _, _, bytes = queue.parse_header(redis.call("HGET", KEYS[1], q.key))
  local mean = (tonumber(bytes) or 0) / math.max(1, redis.call("HLEN", q.records))
  local count = math.max(4, math.min(budget, math.floor(1048576 / math.max(mean, 256))))
  local found = redis.call("HSCAN", q.records, cursor, "COUNT", count)
  local items = found[2]
  for n = 1, #items, 2 do
    local id, rec = items[n], items[n + 1]
    if string.sub(id, 1, 1) ~= "^" then
      audit.message(reply, q, id, rec)
    elseif redis.call("HEXISTS", q.records, string.sub(id, 2)) == 0 then
      audit.row(reply, "B", q.records, string.sub(id, 2), #rec)
    end
  end
  return found[1], #items / 2
end

-- Appends the row of a message, and those of the elements that it lacks in the index.
function audit.message(reply, q, id, rec)
  local stop = string.find(rec, "\0", 1, true) -- where the head ends, nil in a damaged record
  local available = redis.call("ZSCORE", q.available, id)
  local deadline, state_text = redis.call("ZSCORE", q.locked, id), redis.call("HGET", q.states, id)
  if not deadline then
    local packed_deadline, packed_state = audit_claims.lock_of(q, id, #rec)
    deadline, state_text = packed_deadline, state_text or packed_state
  end
  local large = redis.call("HEXISTS", q.records, "^" .. id) == 1
  local timer = redis.call("ZSCORE", q.timers, timers.letters.expiry .. id) or ""
  audit.row(reply, "M", q.records, id, #rec, stop and string.sub(rec, 1, stop) or string.sub(rec, 1, 96),
    large and redis.call("HSTRLEN", q.records, "^" .. id) or "",
    available or "", deadline, state_text or "", timer, timers.delayed_until(q, id) or "",
    redis.call("ZSCORE", q.index, message_state.visible_member(id)) or "", audit.expires(rec, timer))
  for _, member in ipairs(available and audit.members(q, id, rec, true) or {}) do
    if not redis.call("ZSCORE", q.index, member) then audit.row(reply, "X", q.index, member) end
  end
end
