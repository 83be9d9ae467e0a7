-- One queue: its keys and the properties that a script decides by.
--
-- Keys of a queue, eight in a row (mqredis/keys.py builds them):
--   q  hash  properties, counters, generation         a  zset  score 0, ids of available messages
--   l  zset  ids of locked messages, score deadline   m  hash  id -> record; "^"id -> large body
--   s  hash  id -> state record, once it has one      t  zset  score ms: "e"id expiry, "d"id delay, ...
--   w  zset  waiting readers, score ticket            i  zset  score 0, index of identifiers
local queue = { opened = {} }

-- The n-th queue of KEYS, or nothing if it does not exist. `first`: how many of the manager's keys come before.
function queue.open(n, first)
  local at = first + (n - 1) * 8
  if not KEYS[at + 1] then return end
  local p = redis.call("HMGET", KEYS[at + 1], "generation", "messages", "bytes", "flags",
    "quota_messages", "quota_bytes", "max_bytes", "sub_messages", "sub_bytes", "due", "waiting", "gone")
  if not p[1] then return end
  local q = {
    q = KEYS[at + 1], a = KEYS[at + 2], l = KEYS[at + 3], m = KEYS[at + 4],
    s = KEYS[at + 5], t = KEYS[at + 6], w = KEYS[at + 7], i = KEYS[at + 8],
    generation = p[1], messages = tonumber(p[2]), bytes = tonumber(p[3]), flags = p[4],
    quota_messages = tonumber(p[5] or ""), quota_bytes = tonumber(p[6] or ""), max_bytes = tonumber(p[7]),
    sub_messages = tonumber(p[8] or 0), sub_bytes = tonumber(p[9] or 0),
    due = tonumber(p[10] or ""), waiting = p[11],
    gone = tonumber(p[12] or 0),
  }
  queue.opened[q.q] = q
  return q
end

-- A timer was set: nobody has to look at the queue's timers before the earliest of them. `at` in ms.
function queue.note(q, at)
  at = tonumber(at)
  if not q.due or at < q.due then
    q.due = at
    q.noted = true
  end
end

function queue.is(q, flag)
  return string.find(q.flags, flag, 1, true) ~= nil
end

-- The encoded name inside a queue's keys.
function queue.name(q)
  return string.match(q.q, ":q:([^:]+):q$")
end

-- A subqueue shares its parent's flags and limits, and counts in its quota; a journal has its own.
function queue.under(q, parent)
  if not parent or string.find(q.q, "%3Bjournal:q", -13, true) then return end
  q.parent, q.flags, q.max_bytes = parent, parent.flags, parent.max_bytes
end

-- The parent of a subqueue stands right behind it in KEYS; other queues there are none of its family.
function queue.join(q, first)
  local second = KEYS[first + 9]
  if not second then return end
  local stem = string.match(q.q, "^(.*)%%3B[^:]*:q$")
  if stem and second == stem .. ":q" then queue.under(q, queue.open(2, first)) end
end
