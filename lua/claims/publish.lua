--- require "core/context"
--- require "core/position"
--- require "claims/publish_plain"
--- require "core/enqueue"
--- require "core/queue"
--- require "core/record"
--- require "features/other_queues"
--- require lazy "features/features"
--- require lazy "features/trace"
-- From stages into their queues: what send.lua does, with messages that wait in lists.
local publish = { page = 256 }

-- Up to `most` entries of a stage's list from element `from` on, as core/enqueue wants them, and how many elements they are.
-- The first and the last message of a transactional queue's unit of work are marked (3.1.4.3).
function publish.entries(q, stage, from, most)
  local items, found, at = redis.call("LRANGE", stage.list, from, from + most - 1), {}, 1
  local transactional, exclusive = queue.has(q, "t"), queue.has(q, "x")
  while at <= #items do
    local e = { priority = string.byte(items[at], 1) - 48, rec = context.now_text .. string.sub(items[at], 2) }
    if record.flag(e.rec, 8) then
      at = at + 1
      e.large = items[at] or redis.call("LINDEX", stage.list, from + at - 1)
    end
    if transactional and not q.begun then e.rec = record.set_flag(e.rec, 2) end
    if transactional and stage.list == q.final and from + at == q.final_size then e.rec = record.set_flag(e.rec, 4) end
    if exclusive then e.rec = record.set_flag(e.rec, 1) end
    q.begun = true
    e.size = #e.rec + (e.large and #e.large or 0)
    found[#found + 1] = e
    at = at + 1
  end
  return found, at - 1
end

-- Decide, for a stage that holds special messages: the queues they write to besides, and duplicates. Returns a refusal
-- or nothing; context.missing may name queues.
function publish.plan(q, stage, keys)
  features.load()
  trace.load()
  local from, begun = 0, q.begun
  repeat
    local entries, used = publish.entries(q, stage, from, publish.page)
    from = from + used
    for n = 1, #entries do
      local key = record.flag(entries[n].rec, 1) and record.field(entries[n].rec, "k")
      if key and keys[key] then return status.DUPLICATE end
      if key then keys[key] = true end
    end
    local batch = enqueue.batch(entries)
    if batch.wants and features.plan(q, batch.records, batch.wants, true) then return status.DUPLICATE end
    trace.accepted(q, entries, false)
    trace.expiring(q, entries)
  until used == 0
  q.begun = begun
end

function publish.put(q, stage, from, most)
  local entries, elements = publish.entries(q, stage, from, most)
  if elements == 0 then return 0, 0 end
  enqueue.put(q, enqueue.number(entries, queue.has(q, "t")), enqueue.batch(entries))
  return #entries, elements
end

-- Apply: puts up to `most` messages of a stage into its queue. Returns how many, and how many elements they were.
function publish.some(q, stage, most)
  local taken, used = 0, 0
  local hooked = stage.special == "1" or queue.has(q, "x")
  local plain = not hooked and not queue.has(q, "t")
  while taken < most do
    local run = plain and publish_plain.some(q, stage, used, most - taken)
    local count, elements = run, run
    if not run then count, elements = publish.put(q, stage, used, math.min(publish.page, most - taken)) end
    if elements == 0 then break end
    taken, used = taken + count, used + elements
  end
  return taken, used
end

-- The queues of KEYS; the keys behind them are none.
function publish.queues(count)
  context.first_place, context.places = 3, {}
  local found = {}
  for n = 1, count do
    local name = string.match(KEYS[2 + n * 8 - 7], ":q:([^:]+):q$")
    context.places[name] = n
    local q = queue.open(n, 2)
    if q then
      q.due_messages, q.due_bytes = 0, 0
      found[name] = q
    end
  end
  return found
end
