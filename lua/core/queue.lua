--- require "core/context"
--- require lazy "core/packed_locks"
-- One queue: its keys and the properties that a script decides by.
--
-- Keys of a queue, eight in a row (mqredis/keys.py builds them):
--   q  hash  properties, counters, generation         a  zset  score 0, ids of available messages
--   l  zset  ids of locked messages, score deadline   m  hash  id -> record; "^"id -> large body
--   s  hash  id -> state record, once it has one      t  zset  score ms: "e"id expiry, "d"id delay, ...
--            (and pages of claims: claims/claim_pages)
--   w  zset  waiting readers, score ticket            i  zset  score 0, index of identifiers
--
-- What each call reads and most write of a queue is one text, its line, in meta, whose field is the queue's first key
-- (docs/decisions/0042): "<brief> <counts><locks>".
--   brief   what its properties mean for the scripts: "generation|flags|max_bytes|quota_messages|quota_bytes|index".
--           Whoever writes one of these calls queue.save_config.
--   counts  what changes from call to call: "messages bytes gone due waiting marks". gone: how many have left it; due: when
--           to look at its timers, -1 never; waiting: 1 if readers may wait; marks: 1 once a special message came
--           (q.has_special), and 2 for each text of locks that stands beside the line. These stay text until they change.
--   locks   those of the plainest readers, until somebody opens the queue (core/packed_locks)
-- But for the short ways only queue.write and queue.save write it.
--
-- index: an id. Of the available messages those up to it are in the index of identifiers, and no others (q.indexed,
-- matching/index_build). never: before the first id; always: behind the last. Both are digits, as all in an id is: Lua compares
-- texts as the server's locale has it, and what comes before a digit there nobody knows. What earlier builds have
-- written there, or nothing, stands in `said`.
local queue = { opened = {}, memo = { size = 0 }, never = "0", always = "8",
  line = "^(%S+) (%d+) (%d+) (%d+) (%-?%d+) ([01]) (%d+)(.*)$",
  said = { [""] = "8", all = "8", part = "8", none = "0" } }

-- The n-th queue of KEYS, or nothing if it does not exist. `first`: how many of the manager's keys come before. `line`:
-- what was read of it.
function queue.open(n, first, line)
  local at = first + (n - 1) * 8
  local key = KEYS[at + 1]
  if not key then return end
  if queue.opened[key] then return queue.opened[key] end  -- of two, one would write what the other does not know
  local brief, messages, bytes, gone, soon, waiting, marks, locks =
    string.match(line or redis.call("HGET", KEYS[1], key) or queue.migrate(at) or "", queue.line)
  local known = brief and queue.memo[brief] or queue.parse_config(key, brief)
  if not known then return end
  local q = {
    q = key, a = KEYS[at + 2], l = KEYS[at + 3], m = KEYS[at + 4],
    s = KEYS[at + 5], t = KEYS[at + 6], w = KEYS[at + 7], i = KEYS[at + 8],
    generation = known.generation, flags = known.flags, max_bytes = known.max_bytes,
    quota_messages = known.messages, quota_bytes = known.bytes,
    messages = messages, bytes = bytes, gone = gone, due = soon and soon ~= "-1" and soon + 0 or nil,
    waiting = waiting == "1", has_special = marks and marks % 2 == 1, changed = false, indexed = known.indexed,
    stem = known.stem, brief = known.brief,
  }
  queue.opened[key] = q
  if locks and (locks ~= "" or #marks > 1 or marks + 0 > 1) then
    -- From here on each lock has its state. That says nothing new of any message, so it may come before a refusal.
    packed_locks.load()
    packed_locks.unpack(at, locks)
    queue.write(q)
  end
  return q
end

-- The line of a queue that a build before schema 5 has left: it stood in the queue's own hash, with all texts of locks.
-- Nothing if that has no counts: there is no such queue, or its line is lost.
function queue.migrate(at)
  local key = KEYS[at + 1]
  local counts, marks = string.match(redis.call("HGET", key, "counts") or "", "^(%d+ %d+ %d+ %-?%d+ [01]) (%d+)$")
  local brief = counts and queue.read_config(key)
  if not brief then return end
  if marks + 0 > 1 then
    packed_locks.load()
    packed_locks.before(at)
  end
  local line = brief .. " " .. counts .. (marks % 2 == 1 and " 1" or " 0")
  redis.call("HSET", KEYS[1], key, line)
  redis.call("HDEL", key, "brief", "counts")
  return line
end

-- The brief of a queue taken apart; nothing if there is no such queue.
function queue.parse_config(key, text)
  text = text or queue.read_config(key)
  local stem, generation, flags, most, messages, bytes, reach =
    string.match(text or "", "^((%d+)|(%a*)|(%d*)|(%d*)|(%d*))|?([^|]*)$")
  if not stem then return end
  return context.remember(queue.memo, text, { generation = generation, flags = flags, max_bytes = tonumber(most),
    messages = tonumber(messages), bytes = tonumber(bytes), stem = stem, indexed = queue.said[reach] or reach,
    brief = text })
end

-- From here on the index reaches up to this id. For scripts that save the queue in the end, whatever comes.
function queue.set_indexed(q, upto)
  q.indexed, q.brief, q.changed = upto, q.stem .. "|" .. upto, true
  redis.call("HSET", q.q, "index", upto)
end

-- The brief as the properties have it.
function queue.read_config(key)
  local f = redis.call("HMGET", key, "generation", "flags", "max_bytes", "quota_messages", "quota_bytes", "index")
  if not f[1] then return end
  for n = 2, 6 do f[n] = f[n] or "" end
  return table.concat(f, "|")
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
  q.brief = queue.read_config(q.q)
  queue.write(q)
end

-- Its counts as the line has them, but for locks.
function queue.counts(q)
  return string.format("%d %d %d %d %d %d", q.messages, q.bytes, q.gone, q.due or -1, q.waiting and 1 or 0,
    q.has_special and 1 or 0)
end

-- Writes its line, at once. What has changed is still to be saved: a parent counts by that. One whose counts are lost has
-- no line, until the doctor counts.
function queue.write(q)
  if q.messages then redis.call("HSET", KEYS[1], q.q, q.brief .. " " .. queue.counts(q)) end
end

-- Has it written when the script ends.
function queue.save(q)
  if q.messages then context.add_header(q.q, q.brief .. " " .. queue.counts(q)) end
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
  local flags = q.flags
  if #flags < 2 then return flags == flag end  -- most queues have none or one
  return string.find(flags, flag, 1, true) ~= nil
end

-- The encoded name inside a queue's keys, which begin as those of the manager do: "mq:{<manager>}:meta".
function queue.name(q)
  return string.sub(q.q, #KEYS[1] - 1, -3)
end

-- A subqueue shares its parent's flags and limits, and counts in its quota, but for ;poison (q.apart), which has a quota
-- of its own: failed messages do not keep senders from the queue. A journal has limits of its own.
function queue.set_parent(q, parent)
  if not parent or string.find(q.q, "%3Bjournal:q", -13, true) then return end
  q.parent, q.flags, q.max_bytes = parent, parent.flags, parent.max_bytes
  q.apart = string.find(q.q, "%3Bpoison:q", -12, true) ~= nil
end

-- The parent of a subqueue stands right behind it in KEYS; other queues there are none of its family.
function queue.open_parent(q, first)
  local second = KEYS[first + 9]
  if not second then return end
  local stem = string.match(q.q, "^(.*)%%3B[^:]*:q$")
  if stem and second == stem .. ":q" then queue.set_parent(q, queue.open(2, first)) end
end
