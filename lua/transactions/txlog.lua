--- require "core/context"
--- require "core/queue"
-- Reading the log of a transaction back, for whoever ends it.
local txlog = {}

-- The fields of a transaction with so many operations: its record, then each of them.
function txlog.fields(id, count)
  local fields, stem = { id }, id .. ":"
  for k = 1, count do fields[k + 1] = stem .. string.format("%d", k) end
  return fields
end

-- The texts of a transaction: its record, then each operation, false for what is missing; how many operations it has, its
-- deadline and its fence. Nothing if there is none. Most have two, and are read at once.
function txlog.read(id)
  local texts = redis.call("HMGET", KEYS[2], id, id .. ":1", id .. ":2")
  local deadline, fence, count = string.match(texts[1] or "", "^(%d+) (%d+) (%d+)")
  if not count then return end
  count = count + 0
  local fields = count > 2 and txlog.fields(id, count)
  for from = 4, count + 1, 500 do
    local more = redis.call("HMGET", KEYS[2], unpack(fields, from, math.min(from + 499, count + 1)))
    for k = 1, #more do texts[from + k - 1] = more[k] end
  end
  return texts, count, deadline, fence
end

-- An operation: op, encoded name of the queue, lookup id, target and reason ("" each if there is none).
function txlog.parse(text)
  return string.match(text, "^(%S) (%S+) (%x+) ?(%S*) ?(.*)$")
end

-- Forgets the transaction and its log.
function txlog.forget(id, count)
  context.mark_changed()
  if count == 2 then return redis.call("HDEL", KEYS[2], id, id .. ":1", id .. ":2") end
  local fields = txlog.fields(id, count)
  for from = 1, #fields, 500 do
    redis.call("HDEL", KEYS[2], unpack(fields, from, math.min(from + 499, #fields)))
  end
end

-- The queues of KEYS by encoded name, for scripts that get the queues of a whole transaction. A queue that does not
-- exist any more is named in `gone`. What was read of the first two may be given.
function txlog.queues(one, two)
  local found, gone, subs = {}, {}, false
  for n = 1, (#KEYS - 2) / 8 do
    local q, key = queue.open(n, 2, n == 1 and one or n == 2 and two or nil), KEYS[n * 8 - 5]
    if q then
      found[queue.name(q)] = q
      subs = subs or string.find(key, "%3B", 1, true)
    else
      gone[string.match(key, ":q:([^:]+):q$")] = true
    end
  end
  if subs then
    for name, q in pairs(found) do
      local parent = string.match(name, "^(.-)%%3B")
      if parent then queue.set_parent(q, found[parent]) end
    end
  end
  return found, gone
end
