--- require "core/cache"
--- require "core/context"
--- require "core/queue_header"
--- require lazy "core/locks"
-- One queue: its keys and the properties that a script decides by.
--
-- Keys of a queue, eight in a row (mqredis/keys.py builds them):
--   q  hash  properties, counters, generation         a  zset  score 0, ids of available messages
--   l  zset  ids of locked messages, score deadline   m  hash  id -> record; "^"id -> large body
--   s  hash  id -> state, once it has one             t  zset  score ms: "e"id expiry, "d"id delay, ...
--            (and pages of claims: claims/claim_pages)
--   w  zset  waiting readers, score ticket            i  zset  score 0, index of identifiers
--
-- What most calls read and write of a queue is its header in meta (core/queue_header).
--
-- never, always: before the first id, behind the last. Both are digits, as all in an id is: Lua compares texts as the
-- locale of the server says, and only digits are safe. `reach`: what builds before schema 4 wrote there, or nothing.
local queue = { never = "0", always = "8", reach = { [""] = "8", all = "8", part = "8", none = "0" } }

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

-- The same for scripts that read no states of messages that are not available: what one call has locked stays together.
function queue.read(n, first, text)
  local at = first + (n - 1) * 8
  local key = KEYS[at + 1]
  if not key then return end
  if context.queues[key] then return context.queues[key] end  -- of two, one would write what the other does not know
  if not text then text = key == KEYS[3] and context.header or redis.call("HGET", KEYS[1], key) end
  local config, messages, bytes, gone, due, waiting, marks, packed = queue_header.parse(text)
  local known = config and cache.queues[config] or queue.parse_config(key, config)
  if not known then return end
  marks = (marks or 0) + 0
  local q = {
    q = key, a = KEYS[at + 2], l = KEYS[at + 3], m = KEYS[at + 4],
    s = KEYS[at + 5], t = KEYS[at + 6], w = KEYS[at + 7], i = KEYS[at + 8],
    generation = known.generation, flags = known.flags, is = known.is, max_bytes = known.max_bytes,
    quota_messages = known.messages, quota_bytes = known.bytes, indexed = known.indexed, stem = known.stem,
    config = known.config, messages = messages, bytes = bytes, gone = gone, due = due and due ~= "-1" and due + 0,
    waiting = waiting == "1", has_special = marks % 2 == 1, has_states = marks % 4 > 1,
    lock_texts = (marks - marks % 4) / 4, locks = packed or "", changed = false,
    parent = nil, arrived = nil, shown = nil,
  }
  context.queues[key] = q
  return q
end

-- What a config says; nothing if there is no such queue.
function queue.parse_config(key, text)
  text = text or queue.read_config(key)
  local stem, generation, flags, most, messages, bytes, reach = queue_header.parse_config(text)
  if not stem then return end
  local is = {}
  for flag in string.gmatch(flags, ".") do is[flag] = true end
  return cache.keep(cache.queues, text, { generation = generation, flags = flags, is = is, max_bytes = tonumber(most),
    messages = tonumber(messages), bytes = tonumber(bytes), stem = stem, indexed = queue.reach[reach] or reach,
    config = text })
end

-- From here on the index reaches up to this id. For scripts that save the queue in the end, whatever comes.
function queue.set_indexed(q, upto)
  q.indexed, q.config, q.changed = upto, q.stem .. "|" .. upto, true
  redis.call("HSET", q.q, "index", upto)
end

-- The config as the properties have it.
function queue.read_config(key)
  local f = redis.call("HMGET", key, "generation", "flags", "max_bytes", "quota_messages", "quota_bytes", "index")
  return f[1] and queue_header.format_config(f)
end

-- A new queue, with more of its fields given in pairs.
function queue.create(key, generation, ...)
  redis.call("HSET", key, "generation", generation, "created", context.now, "modified", context.now,
    "index", queue.never, ...)
  redis.call("HSET", KEYS[1], key, queue.read_config(key) .. " 0 0 0 -1 0 0")
end

-- It is gone, or about to go.
function queue.forget(q)
  redis.call("HDEL", KEYS[1], q.q)
end

-- Its properties have changed.
function queue.save_config(q)
  q.config = queue.read_config(q.q)
  queue.write(q)
end

-- Writes its header at once. What has changed is still to be saved: a parent counts by that. A queue whose counters are
-- lost has no header, until the doctor counts.
function queue.write(q)
  if q.messages then redis.call("HSET", KEYS[1], q.q, queue_header.format(q)) end
end

-- Has its header written when the script ends.
function queue.save(q)
  if q.messages then context.write(q.q, queue_header.format(q)) end
  q.changed = false
end

-- What the subqueues of a queue hold, which counts in its quota: into sub_messages and sub_bytes.
function queue.read_subqueue_totals(q)
  if q.sub_messages then return end
  local p = redis.call("HMGET", q.q, "sub_messages", "sub_bytes")
  q.sub_messages, q.sub_bytes = tonumber(p[1] or 0), tonumber(p[2] or 0)
end

-- A timer was set: nobody has to look at the queue's timers before the earliest of them. `at` in ms.
function queue.set_timer(q, at)
  at = at + 0
  if not q.due or at < q.due then
    q.due = at
    q.changed = true
  end
end

function queue.has(q, flag)
  return q.is[flag] == true
end

-- The encoded name inside a queue's keys, which begin as those of the manager do: "mq:{<manager>}:meta".
function queue.name(q)
  return string.sub(q.q, #KEYS[1] - 1, -3)
end

-- A subqueue shares its parent's flags and limits, and counts in its quota, but for ;poison (q.apart), which has a quota
-- of its own: failed messages do not keep senders from the queue. A journal has limits of its own.
function queue.set_parent(q, parent)
  if not parent or string.find(q.q, "%3Bjournal:q", -13, true) then return end
  q.parent, q.flags, q.is, q.max_bytes = parent, parent.flags, parent.is, parent.max_bytes
  q.apart = string.find(q.q, "%3Bpoison:q", -12, true) ~= nil
end

-- The parent of a subqueue stands right behind it in KEYS; other queues there are none of its family.
function queue.open_parent(q, first)
  local second = KEYS[first + 9]
  if not second then return end
  local stem = string.match(q.q, "^(.*)%%3B[^:]*:q$")
  if stem and second == stem .. ":q" then queue.set_parent(q, queue.open(2, first)) end
end
