--- require "core/cache"
--- require "core/context"
--- require lazy "core/statistics"
--- require lazy "core/locks"
--- used by admin/audit, admin/create, admin/operator, admin/redrive, admin/sweep, bulk, cancel, claim and 70 more
-- One queue: its keys and the properties that a script decides by.
--
-- Keys of a queue, eight in a row (mqredis/keys.py builds them): the last letter of each, and its name in the scripts.
--   q  key        hash  properties, counters, generation. Its name stands for the queue elsewhere
--   a  available  zset  ids of available messages, score 0
--   l  locked     zset  ids of locked messages, score: deadline in ms
--   m  records    hash  id -> core/record; "^"id -> large body
--   s  states     hash  id -> core/message_state, once it has one; pages of claims (claims/claim_pages)
--   t  timers     zset  score: when it is due, in ms: "e"id expiry, "d"id delay, ... (core/timers)
--   w  waiters    zset  readers that wait, score: ticket (waiting/waiters)
--   i  index      zset  index of identifiers, score 0 (matching/index)
--
-- What most calls read of a queue and write is its header, the field of meta whose name is the queue's first key:
--
--   "<config> <messages> <bytes> <gone> <due> <waiting> <marks><locks>"
--
--   config    what its properties mean for the scripts: "generation|flags|max_bytes|quota_messages|quota_bytes|index".
--             index: of the available messages those up to this id are in the index of identifiers, and no others
--             (matching/index_build)
--   messages  in the queue, whatever their state, and their bytes; gone: how many have left it
--   due       when its timers have to be looked at, in ms: not later than the first of them, nor than the end of the bucket
--             of its statistics that is open (core/statistics)
--   waiting   1 if readers may wait
--   marks     the sum of 1 if a message has come whose record sets it apart, 2 if an available message may have a state,
--             and 4 for each text of locks that stands beside the header
--   locks     of readers that locked plain messages (core/locks)
--
-- mqredis/operations/doctor/snapshot.py reads it, too.
--
-- The table of a queue outlives the call in a function library. The next call uses it again if the header that it reads is
-- the one that was written from this table (`text`), so that it need not be parsed. A field that may change is named in
-- queue.parse, and is false, not nil, if it has no value. A module that gives the table more fields, or changes what the
-- config says, sets `altered`: then it is of use in this call alone.
--
-- never, always: before the first id, behind the last. Both are digits, as all in an id is: Lua compares texts as the
-- locale of the server says, and only digits are safe.
--
-- claimed: the score in q.locked from which on a lock belongs to a claim and never lapses (claims/claim), 2^52. Timers with such a
-- score never come due either.
--
-- bucket: the length of a bucket of the statistics in ms. log: the encoded name of the log of actions (admin/operator).
-- letters: what the field "flags" of a queue is made of (mqredis/commands/queues.py), and the options that they stand for.
--
-- locks_groups: has the queue one active message of each group at a time (features/group_lock)? Its subqueues share the
-- option group_exclusive, but have no turns of groups.
local queue = {
  letters = { t = "transactional", j = "journaling", p = "put_inhibited", g = "get_inhibited", x = "group_exclusive",
    f = "topic", r = "retry", l = "trail", s = "system" },
  never = "0", always = "8", claimed = 4503599627370496, bucket = 300000, log = "system%24%3Bactions",
}

-- The n-th queue of KEYS, or nothing if it does not exist. `first`: how many of the manager's keys come before. `text`:
-- its header, if that was read already. Each lock of it has its state from here on.
function queue.open(n, first, text)
  local q = queue.read(n, first, text)
  if q and q.locks ~= "" then
    locks.load()
    locks.expand(q)
  end
  return q
end

-- As queue.open, for scripts that read no states of messages that are not available: what one call has locked stays together.
function queue.read(n, first, text)
  local at = first + (n - 1) * 8
  local key = KEYS[at + 1]
  local q = key and cache.tables[key]
  if q and q.call == context.call then return q end  -- of two tables, one would write what the other does not know
  if not key then return end
  if not text then text = key == KEYS[3] and context.header or redis.call("HGET", KEYS[1], key) end
  if q and text and text == q.text then
    q.call, q.text = context.call, false -- until the header is written: a call that fails may have changed the table
    q.arrived, q.shown, q.beside, q.sub_messages, q.sub_bytes = false, false, false, false, false
    return q
  end
  return queue.parse(at, text)
end

-- The table of the queue whose keys begin behind this place of KEYS, from its header; nothing if it does not exist.
function queue.parse(at, text)
  local key = KEYS[at + 1]
  local config, messages, bytes, gone, due, waiting, marks, packed = queue.parse_header(text)
  local known = config and cache.queues[config] or queue.parse_config(key, config)
  if not known then return end
  marks = (marks or 0) + 0
  local q = {
    key = key, available = KEYS[at + 2], locked = KEYS[at + 3], records = KEYS[at + 4],
    states = KEYS[at + 5], timers = KEYS[at + 6], waiters = KEYS[at + 7], index = KEYS[at + 8],
    generation = known.generation, flags = known.flags, options = known.options, max_bytes = known.max_bytes,
    quota_messages = known.messages, quota_bytes = known.bytes, indexed = known.indexed, stem = known.stem,
    config = known.config, messages = messages, bytes = bytes, gone = gone, due = due and due + 0,
    waiting = waiting == "1", has_special = marks % 2 == 1, has_states = marks % 4 > 1,
    lock_texts = (marks - marks % 4) / 4, locks = packed or "",
    locks_groups = known.options.group_exclusive, call = context.call, text = false, changed = false, altered = false,
    parent = false, apart = false,
    arrived = false, shown = false, beside = false, sub_messages = false, sub_bytes = false,
    -- The log of actions uses nothing of the manager's quota: else what operators do would keep senders out.
    outside = string.sub(key, -#queue.log - 3) == ":" .. queue.log .. ":q",
  }
  return cache.keep_table(key, q)
end

-- Do the timers of the queue have to be looked at? `due` is never later than the earliest of them, so most calls need not.
function queue.is_due(q)
  return q.due and q.due <= context.now
end

-- When the present bucket of the statistics ends, in ms.
function queue.bucket_end()
  return context.now - context.now % queue.bucket + queue.bucket
end

-- Config, messages, bytes, gone, due, waiting, marks and locks, as texts; nothing if the text is not sound.
function queue.parse_header(text)
  return string.match(text or "", "^(%S+) (%d+) (%d+) (%d+) (%d+) ([01]) (%d+)(.*)$")
end

function queue.format_header(q)
  local format, marks = string.format, 4 * q.lock_texts + (q.has_special and 1 or 0) + (q.has_states and 2 or 0)
  -- Only what may have changed is formatted as a number: six numbers would cost as much as a command.
  return q.config .. format(q.waiting and " %d %d %s %d 1 " or " %d %d %s %d 0 ", q.messages, q.bytes, q.gone, q.due)
    .. (marks == 0 and "0" or marks == 1 and "1" or format("%d", marks)) .. q.locks
end

-- What a config says; nothing if there is no such queue.
function queue.parse_config(key, text)
  text = text or queue.read_config(key)
  local stem, generation, flags, most, messages, bytes, upto =
    string.match(text or "", "^((%d+)|(%a*)|(%d*)|(%d*)|(%d*))|?([^|]*)$")
  if not stem then return end
  return cache.keep(cache.queues, text, { generation = generation, flags = flags, options = queue.parse_options(flags),
    max_bytes = tonumber(most), messages = tonumber(messages), bytes = tonumber(bytes), stem = stem,
    indexed = queue.reach(upto), config = text })
end

-- Up to which id the index reaches for the scripts, by field "index" of the queue's hash: "part" is the doctor's word for an
-- index that every arriving message enters until a search has completed it (matching/index_build).
function queue.reach(upto)
  return upto == "part" and queue.always or upto
end

-- From here on the index reaches up to this id. For scripts that save the queue in the end, whatever comes.
function queue.set_indexed(q, upto)
  q.indexed, q.config, q.changed = upto, q.stem .. "|" .. upto, true
  redis.call("HSET", q.key, "index", upto)
end

-- The config as the properties have it.
function queue.read_config(key)
  local f = redis.call("HMGET", key, "generation", "flags", "max_bytes", "quota_messages", "quota_bytes", "index")
  for n = 2, 6 do f[n] = f[n] or "" end
  return f[1] and table.concat(f, "|")
end

-- A new queue, with more of its fields given in pairs.
function queue.create(key, generation, ...)
  statistics.load()
  redis.call("HSET", key, "generation", generation, "created", context.now, "modified", context.now,
    "index", queue.never, "statistics", statistics.format(statistics.number(), 0, 0, 0, 0, ""), ...)
  redis.call("HSET", KEYS[1], key, queue.read_config(key) .. string.format(" 0 0 0 %d 0 0", queue.bucket_end()))
end

-- It is gone, or about to go.
function queue.forget(q)
  redis.call("HDEL", KEYS[1], q.key)
end

-- Its properties have changed.
function queue.save_config(q)
  q.config, q.altered = queue.read_config(q.key), true
  queue.write(q)
end

-- Writes its header at once. What has changed is still to be saved: a parent counts by that. A queue whose counters are
-- lost has no header, until the doctor counts.
function queue.write(q)
  q.text = false
  if q.messages then redis.call("HSET", KEYS[1], q.key, queue.format_header(q)) end
end

-- Has its header written when the script ends.
function queue.save(q)
  q.changed = false
  if not q.messages then return end
  local text = queue.format_header(q)
  q.text = not q.altered and text
  context.write(q.key, text)
end

-- What the subqueues of a queue hold, which counts in its quota: into sub_messages and sub_bytes.
function queue.read_subqueue_totals(q)
  if q.sub_messages then return end
  local p = redis.call("HMGET", q.key, "sub_messages", "sub_bytes")
  q.sub_messages, q.sub_bytes = tonumber(p[1] or 0), tonumber(p[2] or 0)
end

-- A timer was set: the queue's timers have to be looked at by then. `at` in ms.
function queue.set_timer(q, at)
  at = at + 0
  if not q.due or at < q.due then
    q.due = at
    q.changed = true
  end
end

-- Which options a queue with these flags has, by name.
function queue.parse_options(flags)
  local options = {}
  for letter, name in pairs(queue.letters) do options[name] = string.find(flags, letter, 1, true) ~= nil end
  return options
end

-- The encoded name inside a queue's keys, which begin as those of the manager do: "mq:{<manager>}:meta".
function queue.name(q)
  return string.sub(q.key, #KEYS[1] - 1, -3)
end

-- A subqueue shares its parent's flags and limits, and counts in its quota, but for ;poison (q.apart), which has a quota
-- of its own: failed messages do not keep senders from the queue. A journal has limits of its own.
function queue.set_parent(q, parent)
  if not parent or string.find(q.key, "%3Bjournal:q", -13, true) then return end
  q.parent, q.flags, q.options, q.max_bytes, q.altered = parent, parent.flags, parent.options, parent.max_bytes, true
  q.locks_groups = false
  q.apart = string.find(q.key, "%3Bpoison:q", -12, true) ~= nil
end

-- The parent of a subqueue stands right behind it in KEYS; other queues there are none of its family.
function queue.open_parent(q, first)
  local second = KEYS[first + 9]
  if not second then return end
  local stem = string.match(q.key, "^(.*)%%3B[^:]*:q$")
  if stem and second == stem .. ":q" then queue.set_parent(q, queue.open(2, first)) end
end
