--- require "claims/sinks"
--- require "core/context"
--- require "core/enqueue"
--- require "core/queue"
--- require "core/quota"
--- require lazy "core/record"
--- require lazy "features/dedup"
--- require lazy "features/features"
--- used by stage_publish
-- Puts the messages of stages (claims/sinks) into their queues, as send.lua does with the messages of its arguments. Only
-- stage_publish.lua calls it, in this order: publish.parts opens the queues, publish.stages reads the stages; publish.refuses and
-- publish.plan decide and write nothing; publish.put writes the messages of one stage.
--
-- A batch (of a pipeline) has stages for several queues. A part is what a call knows of one of these queues:
--
--   q                     the queue
--   messages, bytes       of its stages in all
--   begun                 a message of this batch is in the queue already, of an earlier call or of this one
--   last_list, last_size  the list with the last message of the batch for this queue, and how many elements it has
--   keys                  dedup keys of the messages that publish.plan has seen: a key belongs to a queue
--   resumed               an earlier call has published some messages of the batch, so the others are not refused any more
--
-- A stage has these fields beside those of sinks.stage: `list`, the key of its messages, and `part`.
--
-- Change together with: send.lua, whose refusals publish.refuses and publish.plan have; core/enqueue, which reads messages of
-- ARGV as publish.read reads those of a list. Tests: tests/client/test_stages.py.
--
-- Unlike a send: the size of a message is checked when it is staged (mqredis/spark/staging.py), not here. A stage without special
-- messages is not planned, so an option of the queue that makes messages special (enqueue.makes_special) must need no hook `plan`.
-- If the last message of a unit is left out as a duplicate, no message is marked as the last one.
--
-- step_special: messages that one step takes from a list if some of them use features, each of which gets tables of its own;
-- step_plain: if none does. Longer steps are hardly faster, and take more memory at once.
local publish = { step_special = 256, step_plain = 1000 }

-- Returns the parts of the first `count` queues of KEYS that exist: as a list in this order, and by encoded name. `resumed`: as in
-- a part.
function publish.parts(count, resumed)
  -- For features/other_queues, which would take the keys of the sink behind them for queues.
  context.first_place, context.places = queue.message_keys, {}
  local found, by_name = {}, {}
  for n = 1, count do
    local name = queue.nth_name(n)
    context.places[name] = n
    local q = queue.open(n)
    if q then
      local part = { q = q, messages = 0, bytes = 0, begun = false, keys = {}, resumed = resumed }
      found[#found + 1], by_name[name] = part, part
    end
  end
  return found, by_name
end

-- Decide ----------------------------------------------------------------------------------------------------------------

-- Returns the stages of a manifest as a list, and counts each in the part of its queue. If one cannot be published: nil, a
-- status, and the word that goes with LOCK_LOST. `by_name`: of publish.parts; `is_resumed`: `resumed` of the parts.
function publish.stages(sink, manifest, by_name, is_resumed)
  local stages = {}
  for name in sinks.stage_names(manifest) do
    local stage, list = sinks.stage(sink, name), sinks.list_key(sink, #stages + 1)
    local left = redis.call("LLEN", list) -- elements that no call has published yet
    if not stage then return nil, status.LOCK_LOST, is_resumed and "expired" or "stage" end
    if not is_resumed and left ~= stage.elements then return nil, status.LOCK_LOST, "stage" end
    local part = by_name[stage.queue]
    if not part then return nil, status.QUEUE_NOT_AVAILABLE end
    if part.q.options.topic then return nil, status.TRANSACTION_USAGE end
    stage.list, stage.part = list, part
    stages[#stages + 1] = stage
    part.messages, part.bytes = part.messages + stage.messages, part.bytes + stage.bytes
    part.begun = part.begun or left < stage.elements
    if left > 0 then part.last_list, part.last_size = list, left end
  end
  return stages
end

-- Returns the status with which the queues refuse a batch of which nothing is published yet, or nil. In the order of send.lua.
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

-- Plans a stage with messages that use features. Returns the status that refuses it, or nil; context.missing may name queues
-- then.
function publish.plan(stage)
  local from = 0
  repeat
    local batch, _, used = publish.read(stage, from, publish.step_special, false)
    from = from + used
    local refusal = batch.asking and publish.plan_batch(stage.part, batch.asking)
    if refusal then return refusal end
  until used == 0
end

-- Does so for a batch of features. Adds to part.keys the dedup keys of its messages.
function publish.plan_batch(part, batch)
  for _, n in ipairs(batch.places) do
    if batch.wants[n].late and enqueue.is_late(batch.records[n]) then return status.ENQUEUE_TIMED_OUT end
  end
  for _, n in ipairs(batch.by_feature.dedup or {}) do
    local key = record.field(batch.records[n], "dedup_key")
    if part.keys[key] then return status.DUPLICATE end
    part.keys[key] = true
  end
  return features.plan(part.q, batch, false)
end

-- Apply -----------------------------------------------------------------------------------------------------------------

-- Puts up to `most` messages of a stage into its queue. Returns how many, and how many elements of the list they were, which the
-- caller removes.
function publish.put(stage, most)
  local q, taken, used = stage.part.q, 0, 0
  local uses_features = stage.special == "1" or q.options.group_exclusive
  local step = uses_features and publish.step_special or publish.step_plain
  while taken < most do
    local batch, priorities, elements = publish.read(stage, used, math.min(step, most - taken), true)
    if elements == 0 then break end
    local count = #batch.records
    if count > 0 then
      local ids = enqueue.ids(priorities, count, q.options.transactional)
      enqueue.put(q, ids, batch)
    end
    taken, used = taken + count, used + elements
  end
  return taken, used
end

-- Reads up to `most` messages of a stage from element `from` of its list on, 0 for the first. Returns them as a batch
-- (core/enqueue), their priorities as a text of digits, and how many elements were read: a large body is an element of its own.
-- `puts`: are they put into the queue now, so that a transactional one has them marked as parts of one unit of work?
function publish.read(stage, from, most, puts)
  local part = stage.part
  local q, elements = part.q, redis.call("LRANGE", stage.list, from, from + most - 1)
  local batch, priorities = enqueue.new_batch({ nil }), { nil }
  local marks, arrival, at = puts and q.options.transactional, context.now_text, 1
  local may_leave_out = part.resumed and stage.special == "1"
  while at <= #elements do
    local rec, large = arrival .. elements[at], nil -- a record (core/record)
    if record.has_large_body(rec) then
      at = at + 1
      large = elements[at] or redis.call("LINDEX", stage.list, from + at - 1)
    end
    if not (may_leave_out and publish.is_duplicate(q, rec)) then
      priorities[#priorities + 1] = record.priority(rec)
      if marks then
        local is_last = stage.list == part.last_list and from + at == part.last_size
        rec = record.mark(rec, (part.begun and 0 or record.bits.first) + (is_last and record.bits.last or 0))
        part.begun = true
      end
      enqueue.append(batch, rec, large, q)
    end
    at = at + 1
  end
  return batch, table.concat(priorities), at - 1
end

-- Has another sender used the message's dedup key since the batch was begun? Then the message is left out, as a queue takes
-- a key once.
function publish.is_duplicate(q, rec)
  if not record.field(rec, "dedup_key") then return false end
  return dedup.is_held(q, dedup.member(rec))
end
