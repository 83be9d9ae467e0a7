--- require "core/context"
--- require "core/enqueue"
--- require "core/queue"
--- require "core/quota"
--- require "core/record"
--- require lazy "features/features"
-- Puts the messages of stages (claims/sink) into their queues, as send.lua does with the messages of its arguments. Used by
-- stage_publish.lua, which decides with publish.plan and writes with publish.put.
-- q.unit_begun: a message of this batch is in the queue already, or comes before in this call.
-- page: messages that one step takes from a list; run: if none of them asks for anything.
local publish = { page = 256, run = 1000 }

-- A batch (core/enqueue) of up to `most` elements of a stage's list from element `from` on; their priorities, a digit each;
-- and how many elements they are, since a large body is an element of its own.
function publish.batch(q, stage, from, most)
  local items = redis.call("LRANGE", stage.list, from, from + most - 1)
  local batch, priorities = enqueue.new_batch(q, { nil }), { nil }
  local transactional, stamp, at = q.options.transactional, context.now_text, 1
  while at <= #items do
    local text, large = stamp .. items[at], nil
    priorities[#priorities + 1] = record.priority(text)
    if record.flag(text, 8) then
      at = at + 1
      large = items[at] or redis.call("LINDEX", stage.list, from + at - 1)
    end
    if transactional then
      -- The first and the last message of a unit of work are marked (3.1.4.3).
      if not q.unit_begun then text = record.set_flag(text, 2) end
      if stage.list == q.final and from + at == q.final_size then text = record.set_flag(text, 4) end
    end
    q.unit_begun = true
    enqueue.append(batch, text, large, q)
    at = at + 1
  end
  return batch, table.concat(priorities), at - 1
end

-- Decides for a stage whose messages ask for something: DUPLICATE, or nothing; context.missing may name queues. `keys`: the
-- dedup keys of the messages that were looked at before.
function publish.plan(q, stage, keys)
  local from, unit_begun = 0, q.unit_begun
  features.load()
  repeat
    local batch, _, used = publish.batch(q, stage, from, publish.page)
    from = from + used
    for n, wants in pairs(batch.wants or {}) do
      local key = wants.dedup and record.field(batch.records[n], "k")
      if key and keys[key] then return status.DUPLICATE end
      if key then keys[key] = true end
    end
    local refusal = batch.wants and features.plan(q, batch.records, batch.wants, false)
    if refusal then return refusal end
  until used == 0
  q.unit_begun = unit_begun
end

-- Puts up to `most` messages of a stage into its queue. Returns how many, and how many elements of the list they were.
function publish.put(q, stage, most)
  local taken, used, transactional = 0, 0, q.options.transactional
  local page = (stage.special == "1" or q.options.group_exclusive) and publish.page or publish.run
  while taken < most do
    local batch, priorities, elements = publish.batch(q, stage, used, math.min(page, most - taken))
    if elements == 0 then break end
    enqueue.put(q, enqueue.ids(priorities, #batch.records, transactional), batch)
    taken, used = taken + #batch.records, used + elements
  end
  return taken, used
end

-- Why the queues refuse a batch of which nothing is published yet, or nothing: in the order of a send (send.lua).
function publish.refuses(queues)
  local messages, bytes = 0, 0
  for n = 1, #queues do
    local q = queues[n]
    if q.due_messages > 0 and q.options.put_inhibited then return status.PUT_INHIBITED end
    messages, bytes = messages + q.due_messages, bytes + q.due_bytes
  end
  if messages == 0 then return end
  if quota.manager_refuses(messages, bytes) then return status.ENQUEUE_MANAGER_QUOTA end
  for n = 1, #queues do
    local q = queues[n]
    if q.due_messages > 0 and quota.exceeds_queue(q, q.due_messages, q.due_bytes) then
      return status.ENQUEUE_QUEUE_QUOTA
    end
  end
end

-- The first `count` queues of KEYS, those that exist, in this order and by encoded name; the keys behind them are those of
-- the sink.
function publish.queues(count)
  context.first_place, context.places = 2, {}
  local found, by_name = {}, {}
  for n = 1, count do
    local name = string.match(KEYS[2 + n * 8 - 7], ":q:([^:]+):q$")
    context.places[name] = n
    local q = queue.open(n, 2)
    if q then
      q.due_messages, q.due_bytes, q.altered = 0, 0, true
      found[#found + 1], by_name[name] = q, q
    end
  end
  return found, by_name
end
