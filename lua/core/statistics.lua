--- require "core/context"
--- require "core/oldest"
--- require "core/queue"
--- used by admin/create, core/timers, stats_history
-- Statistics of a queue over time: what came, left, failed and was tried again in each period of 5 minutes (a bucket) of
-- the last day, and the age of the oldest message at its end.
--
-- No call counts for them. The counters of a queue grow as long as it exists, and the field "statistics" of its q keeps what they
-- were when the bucket that is open began. The first call of a later bucket that looks at the queue's timers or changes its
-- counters writes the difference as the bucket's item (core/timers, core/store). Between two such calls nothing was counted,
-- so the counts of each bucket are exact, however late that call comes. What is not exact:
--
--   - The age is that of the moment before the first call of a later bucket: a delay or lease that had ended by then, but was
--     not served, does not count.
--   - A message sent in a transaction counts as come when it is sent. If the transaction is aborted in a later bucket, that
--     bucket has one message less: its number may be negative.
--   - A repair of the counters (repair.lua) shows as messages that came or left. A queue whose counters were lost begins anew.
--
-- The text: "<bucket> <came> <left> <failed> <retried> <items>", for example "5880000 120 118 0 2 3c,3a,,2,1;;"
--
--   bucket   that is open: broker time in ms / 300000
--   came...  the counters when it began, in the order of statistics.names, as in items
--   items    of the buckets before it, without a gap, the last one at the end: "[<came>,<left>,<failed>,<retried>,<age>];".
--            Numbers are to the base of 36, nothing stands for 0, and nothing at all for a bucket in which nothing was counted
--            and no message was available. age: seconds + 1
--
-- Change together with: mqredis/codec/history.py reads the text (tests/contract/test_stored_texts.py compares both), and
-- stats_history.lua has the counters in its reply, in this order. One more counter stands in statistics.names and
-- statistics.counters, and in the files that the head of mqredis/operations/history.py names. queue.bucket (core/queue) is the
-- length of a bucket. tests/inspection/test_history.py has the behaviour that users see.
--
-- names: of the counters, which are lists in this order. items: at most so many, those of a day. bytes: at most so many of all
-- items; a day takes less unless a hundred thousand messages pass in a second. Beyond that the first buckets go.
local statistics = { names = { "came", "left", "failed", "retried" }, items = 288, bytes = 8000,
  digits = "0123456789abcdefghijklmnopqrstuvwxyz" }

-- Returns the number of the present bucket.
function statistics.number()
  return math.floor(context.now / queue.bucket)
end

-- Returns the counters since the queue was created.
function statistics.counters(q)
  local poison, rejected, dropped, retried =
    unpack(redis.call("HMGET", q.key, "n_poison", "n_receive_rejected", "n_dropped", "n_retried"))
  local now = { came = q.messages + q.gone, left = q.gone + 0, retried = (retried or 0) + 0,
    failed = (poison or 0) + (rejected or 0) + (dropped or 0) }
  local counters = {}
  for n, name in ipairs(statistics.names) do counters[n] = now[name] end
  return counters
end

-- Ends the bucket that is open, if that is not the present one, and opens the present one.
function statistics.close(q)
  if not q.messages then return end
  local number = statistics.number()
  local text = redis.call("HGET", q.key, "statistics")
  local open, before, items = statistics.parse(text or "")
  if open == number then return end
  local counters = statistics.counters(q)
  if open then
    -- The item of the bucket that was open, then those of the buckets since then, in which nothing was counted.
    local arrival = oldest.arrival(q)
    local more = { items, statistics.item(counters, before, statistics.age(arrival, open)) }
    if number - open > statistics.items then more[1], more[2] = "", "" end
    for bucket = math.max(open + 1, number - statistics.items), number - 1 do
      more[#more + 1] = statistics.item(counters, counters, statistics.age(arrival, bucket))
    end
    items = statistics.last(table.concat(more), statistics.items)
    -- If that is too long, the first items go.
    local over = #items - statistics.bytes
    if over > 0 then items = string.sub(items, string.find(items, ";", over, true) + 1) end
  end
  redis.call("HSET", q.key, "statistics", statistics.format(number, counters, items or ""))
end

-- Returns the age in seconds, at the end of this bucket, of a message that came at `arrival`; nil if that is nil.
function statistics.age(arrival, bucket)
  if not arrival then return end
  return math.max(0, math.floor(((bucket + 1) * queue.bucket - arrival) / 1000))
end

-- Returns the text of a queue with its last `most` items, "" if it has none or cannot be read; and the bytes of the whole text.
function statistics.read(q, most)
  local text = redis.call("HGET", q.key, "statistics") or ""
  local number, counters, items = statistics.parse(text)
  return number and statistics.format(number, counters, statistics.last(items, most)) or "", #text
end

-- Returns the last `most` of these items.
function statistics.last(items, most)
  local turned, at = string.reverse(items), 0
  for _ = 0, most do
    at = string.find(turned, ";", at + 1, true)
    if not at then return items end
  end
  return string.sub(items, #items - at + 2)
end

-- Returns the text for a queue in which nothing was counted.
function statistics.begin()
  local counters = {}
  for n = 1, #statistics.names do counters[n] = 0 end
  return statistics.format(statistics.number(), counters, "")
end

-- Returns the text. `number`: of the bucket that is open.
function statistics.format(number, counters, items)
  return string.format("%d %s %s", number, statistics.join(counters), items)
end

-- Returns counters as a text, with spaces between them.
function statistics.join(counters)
  local parts = {}
  for n = 1, #counters do parts[n] = string.format("%d", counters[n]) end
  return table.concat(parts, " ")
end

-- Returns the number of the open bucket, the counters when it began, and the items of a text; nil if it cannot be read.
function statistics.parse(text)
  local number, numbers, items = string.match(text, "^(%d+) ([%d ]+) (%S*)$")
  local counters = {}
  for counter in string.gmatch(numbers or "", "%d+") do counters[#counters + 1] = counter + 0 end
  if #counters == #statistics.names then return number + 0, counters, items end
end

-- Returns the item of a bucket that began with the counters `before` and ended with `counters`. `age`: in seconds, or nil.
function statistics.item(counters, before, age)
  local numbers, is_empty = {}, not age
  for n = 1, #counters do
    local count = counters[n] - before[n]
    is_empty = is_empty and count == 0
    numbers[n] = statistics.format_number(count)
  end
  if is_empty then return ";" end
  numbers[#numbers + 1] = statistics.format_number(age and age + 1 or 0)
  return table.concat(numbers, ",") .. ";"
end

-- Returns a whole number to the base of 36, "" for 0.
function statistics.format_number(value)
  local text, rest = "", math.abs(value)
  while rest > 0 do
    local digit = rest % 36
    text = string.sub(statistics.digits, digit + 1, digit + 1) .. text
    rest = (rest - digit) / 36
  end
  return value < 0 and "-" .. text or text
end
