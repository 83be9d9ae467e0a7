--- require "core/context"
--- require "core/enqueue"
--- require "core/queue"
--- require "core/quota"
--- require "core/record"
--- require lazy "features/dedup"
--- require lazy "features/features"
--- used by stage_publish
-- Puts the messages of stages (claims/sink) into their queues, as send.lua does with the messages of its arguments. Used by
-- stage_publish.lua, which decides with publish.refuses and publish.plan and writes with publish.put.
--
-- A part is what a call knows of a queue of its batch, beside the table `q` of the queue:
--
--   messages, bytes       of its stages in all
--   begun                 a message of this batch is in the queue already, or comes before in this call
--   last_list, last_size  the list with the last message of the batch for this queue, and how many elements it has
--   keys                  dedup keys of the messages that publish.plan has seen: a key belongs to a queue
--   resumed               an earlier call has published a part of the batch, so the rest is not refused any more: a message
--                         is left out if another sender has used its dedup key since, as a queue takes a key once
--
-- page: messages that one step takes from a list if some of them ask for something, each of which gets tables of its own;
-- run: if none does. Longer steps are hardly faster, and take more memory at once.
local publish = { page = 256, run = 1000 }

-- A batch (core/enqueue) of up to `most` elements of a stage's list from element `from` on; their priorities, a digit each;
-- and how many elements they are, since a large body is an element of its own.
function publish.batch(stage, from, most)
  local part = stage.part
  local q, items = part.q, redis.call("LRANGE", stage.list, from, from + most - 1)
  local batch, priorities = enqueue.new_batch(q, { nil }), { nil }
  local transactional, stamp, at = q.options.transactional, context.now_text, 1
  local checks_keys = part.resumed and stage.special == "1"
  if checks_keys then dedup.load() end
  while at <= #items do
    local text, large = stamp .. items[at], nil
    if record.has_large_body(text) then
      at = at + 1
      large = items[at] or redis.call("LINDEX", stage.list, from + at - 1)
    end
    if not (checks_keys and record.field(text, "dedup_key") and dedup.is_held(q, dedup.member(text))) then
      priorities[#priorities + 1] = record.priority(text)
      if transactional then
        -- The first and the last message of a unit of work are marked (3.1.4.3).
        if not part.begun then text = record.set_flag(text, record.bits.first) end
        local is_last = stage.list == part.last_list and from + at == part.last_size
        if is_last then text = record.set_flag(text, record.bits.last) end
      end
      part.begun = true
      enqueue.append(batch, text, large, q)
    end
    at = at + 1
  end
  return batch, table.concat(priorities), at - 1
end

-- Decides for a stage whose messages ask for something: returns the status that refuses it, or nothing. context.missing may
-- name queues then.
function publish.plan(stage)
  local part, from = stage.part, 0
  local begun = part.begun
  features.load()
  repeat
    local batch, _, used = publish.batch(stage, from, publish.page)
    from = from + used
    for n, wants in pairs(batch.wants or {}) do
      local key = wants.dedup and record.field(batch.records[n], "dedup_key")
      if key and part.keys[key] then return status.DUPLICATE end
      if key then part.keys[key] = true end
    end
    local refusal = batch.wants and features.plan(part.q, batch.records, batch.wants, false)
    if refusal then return refusal end
  until used == 0
  part.begun = begun
end

-- Puts up to `most` messages of a stage into its queue. Returns how many, and how many elements of the list they were.
function publish.put(stage, most)
  local q, taken, used = stage.part.q, 0, 0
  local page = (stage.special == "1" or q.options.group_exclusive) and publish.page or publish.run
  while taken < most do
    local batch, priorities, elements = publish.batch(stage, used, math.min(page, most - taken))
    if elements == 0 then break end
    local count = #batch.records
    if count > 0 then enqueue.put(q, enqueue.ids(priorities, count, q.options.transactional), batch) end
    taken, used = taken + count, used + elements
  end
  return taken, used
end

-- Why the queues refuse a batch of which nothing is published yet, or nothing: in the order of a send (send.lua).
function publish.refuses(parts)
  local messages, bytes = 0, 0
  for n = 1, #parts do
    local part = parts[n]
    if part.messages > 0 and part.q.options.put_inhibited then return status.PUT_INHIBITED end
    messages, bytes = messages + part.messages, bytes + part.bytes
  end
  if messages == 0 then return end
  if quota.manager_refuses(messages, bytes) then return status.ENQUEUE_MANAGER_QUOTA end
  for n = 1, #parts do
    local part = parts[n]
    if part.messages > 0 and quota.exceeds_queue(part.q, part.messages, part.bytes) then
      return status.ENQUEUE_QUEUE_QUOTA
    end
  end
end

-- Parts for the first `count` queues of KEYS that exist, in this order and by encoded name; the keys behind them are those
-- of the sink.
function publish.parts(count, resumed)
  context.first_place, context.places = 2, {}
  local found, by_name = {}, {}
  for n = 1, count do
    local name = string.match(KEYS[2 + n * 8 - 7], ":q:([^:]+):q$")
    context.places[name] = n
    local q = queue.open(n, 2)
    if q then
      local part = { q = q, messages = 0, bytes = 0, begun = false, last_list = false, last_size = 0, keys = {},
        resumed = resumed }
      found[#found + 1], by_name[name] = part, part
    end
  end
  return found, by_name
end
