--- require "core/cache"
--- require "core/context"
--- require "core/queue_config"
--- require lazy "core/locks"
--- used by 82 files: 45 scripts, 6 in admin, 3 in claims, 9 in core, 12 in features, 2 in matching, 3 in transactions, 2 in waiting
-- One queue as a table, `q` in all files: its keys, its counters, and the properties that scripts decide by. A script opens each
-- queue of KEYS that it works on with queue.open or queue.read, after context.open, and that of a subqueue's parent with
-- queue.open_parent. At its end store.save (mostly by waiters.finish) has queue.save write the header.
--
-- A queue has eight keys, which stand in KEYS one behind the other (mqredis/keys.py builds them). The letter ends the key;
-- the word is the field of the table that holds it:
--   q  key        hash  properties, further counters, generation. This key names the queue elsewhere
--   a  available  zset  ids of available messages, score 0
--   l  locked     zset  ids of locked messages, score: deadline in ms
--   m  records    hash  id -> core/record; "^"id -> large body
--   s  states     hash  id -> core/message_state, once it has one; pages of claims (claims/claim_pages)
--   t  timers     zset  score: when it is due, in ms: "e"id expiry, "d"id delay, ... (core/timers)
--   w  waiters    zset  readers that wait, score: ticket (waiting/waiters)
--   i  index      zset  index of identifiers, score 0 (matching/index)
--
-- What most calls need of a queue is in its header, the field of meta whose name is the queue's first key:
--
--   "<config> <messages> <bytes> <gone> <due> <waiting> <marks><locks>"
--   example: "7|tj|4194304|1000||0 2 364 15 1764000030000 1 1 4711,182,1764000030000,12.0,040000000000002a"
--
--   config    properties of the queue (core/queue_config)
--   messages  number of messages in the queue, whatever their state; bytes: their size; gone: how many have left it
--   due       ms at which its timers have to be looked at: not later than the first of them, nor than the end of the open
--             bucket of its statistics (core/statistics)
--   waiting   1 if readers may wait, else 0
--   marks     a sum: 1 if a message has come that is special (core/record), 2 if an available message may have a state,
--             and 4 for each field "lock:<fence>" of meta that belongs to its locks
--   locks     the locks of readers on plain messages (core/locks), a space in front of each
--
-- A header that is lost has no counters: messages, bytes, gone and due are nil then, until the doctor has counted, and calls that
-- count fail. Who changes a field of the table that is in the header sets q.changed, else store.save does not write it.
--
-- Change together with: a new part of the header stands in queue.parse_header, queue.format_header and queue.write_first, in
-- QUEUE_COUNTS of mqredis/keys.py and `_HEADER` of mqredis/operations/doctor/snapshot.py (tests/contract/test_constants.py
-- compares), in mqredis/codec/locks.py, and in repair.lua, which writes counts; it takes a new schema number
-- (core/manager_config). A new key of a queue stands in QUEUE_PARTS of mqredis/keys.py, queue.parse, store.delete_queue and
-- admin/audit. A new field of the table stands in queue.parse and, if it holds for one call, in queue.begin_call
-- (tests/unit/test_functions.py, tests/contract/test_reuse.py). tests/client/test_queue_headers.py tests headers in calls.
--
-- A function library keeps the table for the next call, which need not parse the header then:
--
--   parsed  queue.parse makes the table from the header; q.text is false
--   saved   queue.save sets q.text to the header that it writes; not if q.altered says that properties were changed
--   reused  the next call has read the header that is in q.text: queue.begin_call resets what holds for one call
--   parsed  it has read another one: the call before has failed, or something else has written the header
--
-- What a module wants to keep in the table until the call ends is a field of queue.notes(q). All other fields are named in
-- queue.parse, and false instead of nil: a table whose fields come and go is slow.
--
-- never    an id before all ids; always: one behind all. They are digits, since Lua compares texts by the server's locale,
--          in which only the order of digits is certain
-- claimed  2^52: a lock whose score in q.locked is not lower belongs to a claim and never lapses (claims/claims); NEVER in
--          mqredis/operations/doctor/checks/claims.py
-- bucket   length of a bucket of the statistics, in ms; BUCKET_MS in mqredis/codec/history.py
-- parts    number of keys of a queue
-- message_keys, admin_keys   how many keys of the manager stand in KEYS before those of the queues, by the head of the script:
--          "KEYS message" (meta, txs) or "KEYS admin" (meta, txs, queues, handles, idle)
-- log      encoded name of the log of actions (admin/operator); ACTIONS in mqredis/keys.py
-- tests/contract/test_constants.py and test_stored_texts.py compare these numbers and names with those in Python.
local queue = {
  never = "0", always = "8", claimed = 4503599627370496, bucket = 300000, log = "system%24%3Bactions",
  parts = 8, message_keys = 2, admin_keys = 5,
}

-- Opening -------------------------------------------------------------------------------------------------------------

-- Returns the table of the n-th queue of KEYS; nil if it does not exist. `manager_keys`: how many keys of the manager come
-- before the queues, queue.message_keys if nil. `text`: its header, if that was read already. The locks in its header are
-- expanded, so that each lock has its state.
function queue.open(n, manager_keys, text)
  local q = queue.read(n, manager_keys, text)
  if q then queue.expand_locks(q) end
  return q
end

-- Expands the locks in the header of a queue, if there are any, for a script that has opened the queue with queue.read.
function queue.expand_locks(q)
  if q.locks == "" then return end
  locks.expand(q)
end

-- As queue.open, but the locks stay in the header: for scripts that read no states of locked messages. A script opens a queue once
-- in this way or the other; later calls return the same table.
function queue.read(n, manager_keys, text)
  -- The keys of the queue stand behind the place `at` of KEYS.
  local at = (manager_keys or queue.message_keys) + (n - 1) * queue.parts
  local key = KEYS[at + 1]
  local q = key and cache.tables[key]
  if q and q.call == context.call then return q end  -- of two tables, one would write what the other does not know
  if not key then return end
  if not text then text = key == KEYS[3] and context.header or redis.call("HGET", KEYS[1], key) end
  if q and text and text == q.text then return queue.begin_call(q) end
  return queue.parse(at, text)
end

-- Makes the table of the queue whose keys begin behind place `at` of KEYS, from its header; nil if the queue does not exist.
function queue.parse(at, text)
  local key = KEYS[at + 1]
  local config, messages, bytes, gone, due, waiting, marks, lock_entries = queue.parse_header(text)
  local properties = config and cache.queues[config] or queue_config.parse(key, config)
  if not properties then return end
  marks = (marks or 0) + 0
  local q = {
    key = key, available = KEYS[at + 2], locked = KEYS[at + 3], records = KEYS[at + 4],
    states = KEYS[at + 5], timers = KEYS[at + 6], waiters = KEYS[at + 7], index = KEYS[at + 8],
    generation = properties.generation, flags = properties.flags, options = properties.options,
    max_bytes = properties.max_bytes, quota_messages = properties.quota_messages,
    quota_bytes = properties.quota_bytes, indexed = queue.reach(properties.index), stem = properties.stem,
    config = properties.config,
    -- messages, bytes and gone are texts until something is counted.
    messages = messages, bytes = bytes, gone = gone, due = due and due + 0, waiting = waiting == "1",
    has_special = marks % 2 == 1, has_states = marks % 4 > 1, lock_texts = (marks - marks % 4) / 4,
    locks = lock_entries or "",
    -- One active message of each group at a time (features/group_lock). Subqueues have the option but not this.
    locks_groups = properties.options.group_exclusive or false,
    -- Exempt from the manager's quota: the log of actions, else what operators do would keep senders out.
    exempt = string.sub(key, -#queue.log - 3) == ":" .. queue.log .. ":q",
    changed = false, altered = false, parent = false, has_own_quota = nil, -- the last is set with the parent
    -- queue.begin_call sets these. They are named here so that the table has room for them: to let it grow takes 2 percent of a
    -- transaction.
    call = nil, text = nil, notes = nil, arrived = nil, arrived_busy = nil, freed = nil, sooner = nil,
    sub_messages = nil, sub_bytes = nil,
  }
  return cache.keep_table(key, queue.begin_call(q))
end

-- Sets what holds for one call. Returns the table.
--
--   call              the number of the call (context.call)
--   text              false: the table may differ from the stored header (see the head of this file)
--   notes             see queue.notes
--   arrived, arrived_busy  ids of messages that waiting readers are notified of (notify.serve says who sets them)
--   freed             ids of groups that are not busy any more, for the same purpose
--   sooner            when the first timer is due that queue.set_arrival was told of
--   sub_messages, sub_bytes  see queue.read_subqueue_totals
function queue.begin_call(q)
  q.call, q.text, q.notes, q.sub_messages, q.sub_bytes = context.call, false, false, false, false
  q.arrived, q.arrived_busy, q.freed, q.sooner = false, false, false, false
  return q
end

-- Returns a table for what modules keep of this queue until the call ends:
--
--   retry       the retry policy (features/retry_policy)
--   behind      true: this call has added to the index what one call adds, and there is more (matching/index_build)
--   has_quota   true: the quota of a journal was read (features/copy)
--   trail_share  which share of the messages have trails (features/trail)
--   plans       which messages go to which subscribers (features/topic)
--   pages, page_lists  the page lists of claims, as text and as tables (claims/claims, claims/claim_pages)
--   packed_pages       the packed pages of claims in the order of their ids (admin/audit_claims)
function queue.notes(q)
  q.notes = q.notes or {}
  return q.notes
end

-- The header ----------------------------------------------------------------------------------------------------------

-- Returns config, messages, bytes, gone, due, waiting, marks and locks, as texts; nil if the text is not a header.
function queue.parse_header(text)
  return string.match(text or "", "^(%S+) (%d+) (%d+) (%d+) (%d+) ([01]) (%d+)(.*)$")
end

-- Returns the header of a queue as its table has it now.
function queue.format_header(q)
  local format, marks = string.format, 4 * q.lock_texts + (q.has_special and 1 or 0) + (q.has_states and 2 or 0)
  -- Only what may have changed is formatted as a number: six numbers would cost as much as a command.
  return q.config .. format(q.waiting and " %d %d %s %d 1 " or " %d %d %s %d 0 ", q.messages, q.bytes, q.gone, q.due)
    .. (marks == 0 and "0" or marks == 1 and "1" or format("%d", marks)) .. q.locks
end

-- Has context.close write the header. One that is lost stays lost, here and in queue.write.
function queue.save(q)
  q.changed = false
  if not q.messages then return end
  local text = queue.format_header(q)
  q.text = not q.altered and text
  context.write(q.key, text)
end

-- Writes the header at once, for a change that must not wait for the end of the script: that of locks which were expanded, for
-- example, whose states are written already. The queue is still to be saved, since that writes what its parent counts.
function queue.write(q)
  q.text = false
  if q.messages then redis.call("HSET", KEYS[1], q.key, queue.format_header(q)) end
end

-- Writes the header of a new queue, whose hash is written already. `key`: its first key. Only admin/create calls it.
function queue.write_first(key)
  redis.call("HSET", KEYS[1], key, queue_config.read(key) .. string.format(" 0 0 0 %d 0 0", queue.bucket_end()))
end

-- Removes the header of a queue that is deleted.
function queue.forget(q)
  redis.call("HDEL", KEYS[1], q.key)
end

-- Properties ----------------------------------------------------------------------------------------------------------

-- Writes the header with the config as the hash q has it now. Every script that changes properties of a queue in the hash calls
-- this afterwards. The next call makes the table from that; the table of this call keeps the old ones.
function queue.save_config(q)
  q.config, q.altered = queue_config.read(q.key), true
  queue.write(q)
end

-- Sets the id up to which messages are in the index, or "part". The script must save the queue, whatever comes later.
function queue.set_indexed(q, upto)
  q.indexed, q.config, q.changed, q.altered = upto, q.stem .. "|" .. upto, true, true
  redis.call("HSET", q.key, "index", upto)
end

-- Returns the id up to which messages are in the index (q.indexed), from the field "index" of the queue's hash. The doctor writes
-- "part" there: then every message that arrives enters the index, until a search has completed it (matching/index_build).
function queue.reach(upto)
  return upto == "part" and queue.always or upto
end

-- Timers --------------------------------------------------------------------------------------------------------------

-- Do the timers of the queue have to be looked at? Most calls need not, since `due` is never later than the first of them.
function queue.is_due(q)
  return q.due and q.due <= context.now
end

-- Notes that a timer was set, so that the queue's timers are looked at by then. `at` in ms.
function queue.set_timer(q, at)
  at = at + 0
  if not q.due or at < q.due then
    q.due = at
    q.changed = true
  end
end

-- Notes that a timer was set after which a message is available. Readers that wait know the first timer that there was when they
-- last looked. Of an earlier one a reader is told (notify.serve); it looks, and sleeps until then.
function queue.set_arrival(q, at)
  at = at + 0
  if q.waiting then q.sooner = math.min(q.sooner or at, at) end
  queue.set_timer(q, at)
end

-- Returns the ms at which the present bucket of the statistics ends.
function queue.bucket_end()
  return context.now - context.now % queue.bucket + queue.bucket
end

-- Families: a queue and its subqueues ---------------------------------------------------------------------------------

-- Opens the parent of a subqueue, which stands right behind it in KEYS. No other queue of its family may stand there.
function queue.open_parent(q, manager_keys)
  if not queue.nth_key(2, manager_keys) then return end
  local home, subqueue = queue.split_name(queue.name(q))
  if subqueue and queue.nth_name(2, manager_keys) == home then queue.set_parent(q, queue.read(2, manager_keys)) end
end

-- Makes q a subqueue of `parent`, if that is not nil: it shares the parent's flags and limits, and counts in its quota.
-- ;poison has a quota of its own (q.has_own_quota), so that failed messages do not keep senders from the queue. A journal shares
-- nothing. has_own_quota of mqredis/keys.py says the same, audit.members (admin/audit) says which queues have a parent.
function queue.set_parent(q, parent)
  if not parent or queue.is_subqueue(q, "journal") then return end
  q.parent, q.flags, q.options, q.max_bytes, q.altered = parent, parent.flags, parent.options, parent.max_bytes, true
  q.locks_groups = false
  q.has_own_quota = queue.is_subqueue(q, "poison")
end

-- Returns the queue of which q is a subqueue whose parent is set, else q itself.
function queue.home(q) return q.parent or q end

-- Sets the quota of a subqueue that has one of its own; nil for none.
function queue.set_quota(q, messages, bytes)
  q.quota_messages, q.quota_bytes, q.altered = messages, bytes, true
end

-- Sets sub_messages and sub_bytes: what the subqueues of the queue hold, which counts in its quota.
function queue.read_subqueue_totals(q)
  if q.sub_messages then return end
  local totals = redis.call("HMGET", q.key, "sub_messages", "sub_bytes")
  q.sub_messages, q.sub_bytes = tonumber(totals[1] or 0), tonumber(totals[2] or 0)
end

-- Is it the subqueue of this name of some queue?
function queue.is_subqueue(q, name)
  return string.sub(q.key, -#name - 5) == "%3B" .. name .. ":q"
end

-- Returns the first key of the subqueue of this name of a queue.
function queue.subqueue_key(q, name)
  return queue.join_name(string.sub(q.key, 1, -3), name) .. ":q"
end

-- Places in KEYS, and names -------------------------------------------------------------------------------------------

-- Returns how many queues KEYS brings, if no other keys follow theirs. `manager_keys` as of queue.open.
function queue.count_keys(manager_keys)
  return (#KEYS - (manager_keys or queue.message_keys)) / queue.parts
end

-- Returns the first key of the n-th queue of KEYS, which exists or not; nil if KEYS brings fewer. `manager_keys` as of queue.open.
function queue.nth_key(n, manager_keys)
  return KEYS[(manager_keys or queue.message_keys) + (n - 1) * queue.parts + 1]
end

-- Returns the number of the queue whose first key stands at this place of KEYS. `manager_keys` as of queue.open.
function queue.number(place, manager_keys)
  return (place - 1 - (manager_keys or queue.message_keys)) / queue.parts + 1
end

-- Returns the encoded name of the queue with this first key, "mq:{<manager>}:q:<name>:q". KEYS[1] is "mq:{<manager>}:meta".
function queue.name_of_key(key)
  return string.sub(key, #KEYS[1] - 1, -3)
end

-- Returns the encoded name of the queue.
function queue.name(q)
  return queue.name_of_key(q.key)
end

-- Returns the encoded name of the n-th queue of KEYS, which exists or not. `manager_keys` as of queue.open.
function queue.nth_name(n, manager_keys)
  return queue.name_of_key(queue.nth_key(n, manager_keys))
end

-- Returns the encoded names of a queue and of its subqueue, from the encoded name of both, "<queue>%3B<subqueue>"; nil as the
-- second one for a name without a subqueue.
function queue.split_name(name)
  local at = string.find(name, "%3B", 1, true)
  if not at then return name, nil end
  return string.sub(name, 1, at - 1), string.sub(name, at + 3)
end

-- Returns the encoded name of the subqueue of this name of a queue. `home`: the encoded name of the queue.
function queue.join_name(home, subqueue)
  return home .. "%3B" .. subqueue
end
