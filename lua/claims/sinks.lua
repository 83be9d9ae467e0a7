--- require "core/context"
--- used by claims/publish, stage, stage_discard, stage_list, stage_publish, stage_withdraw
-- Sinks of data pipelines: the state that makes each batch be published exactly once (docs/decisions/pipelines.md). Messages
-- are first stored in stages, one for each task and queue, which expire. Then a batch is published by its manifest, the names
-- of its stages joined by ",". This module alone writes these texts, but for the lists, which stage.lua fills and claims/publish
-- reads:
--
--   sinks, a hash       "<sink>": "<identity> <committed> <publishing> <since ms> <manifest>"
--                       identity: the query that owns the sink, "-" none. committed: the last batch published, -1 none.
--                       publishing: the batch that is being published, "-" none; only the stored manifest may finish it.
--                       since: when a call has last changed the sink. Example, without a manifest: "8b2f0c 41 - 1764000000000 "
--   registry, a hash    of one sink; "<stage>": "<queue> <messages> <bytes> <elements> <special>", the queue's name encoded,
--                       special: 1 if a message uses a feature (features/). Example: orders 2000 640000 2000 0
--                       "closed": the last batch for which no stage is accepted any more
--   stage, a list       messages in the form of stage.lua; a large body is the element after its message
--
-- In all files `sink` is a table with the parts of its text as fields (committed is a number, the others are texts); its `name`;
-- `registry`, that key; and `at`, the place of the key of sinks in KEYS: behind it come the registry, and then the lists of the
-- stages that the call names. Who changes a sink calls sinks.save.
--
-- Change together with: mqredis/codec/sinks.py, which reads the texts for operators (tests/contract/test_stored_texts.py compares);
-- _WHY in mqredis/commands/stages.py, which has a text for each word that a stage*.lua returns with LOCK_LOST; _NAME there, the
-- form of the names of stages, which "closed" does not have. Tests: tests/client/test_stages.py.
--
-- none: stands for no identity and for no batch. new: the text of a sink that nothing was published to.
local sinks = { none = "-", new = "- -1 - 0 " }

-- The stored texts ------------------------------------------------------------------------------------------------------

-- Returns the parts of a sink's text as a table.
function sinks.parse(text)
  local identity, committed, publishing, since, manifest = string.match(text, "^(%S+) (%-?%d+) (%S+) (%d+) (%S*)$")
  return { identity = identity, committed = tonumber(committed), publishing = publishing, since = since,
    manifest = manifest }
end

-- Returns the text of a sink.
function sinks.format(sink)
  return string.format("%s %.0f %s %s %s", sink.identity, sink.committed, sink.publishing, sink.since, sink.manifest)
end

-- Returns a stage as a table with the parts of its text as fields.
function sinks.parse_stage(text)
  local queue_name, messages, bytes, elements, special = string.match(text, "^(%S+) (%d+) (%d+) (%d+) (%d)$")
  return { queue = queue_name, messages = tonumber(messages), bytes = tonumber(bytes), elements = tonumber(elements),
    special = special }
end

-- Returns the text of a stage.
function sinks.format_stage(stage)
  return string.format("%s %.0f %.0f %.0f %s", stage.queue, stage.messages, stage.bytes, stage.elements, stage.special)
end

-- Sinks -----------------------------------------------------------------------------------------------------------------

-- Returns the sink with this name, whose keys begin at place `at` of KEYS: 3, behind meta and txs, if nil. One that is not stored
-- is a new one (sinks.new).
function sinks.open(name, at)
  at = at or 3
  local sink = sinks.parse(redis.call("HGET", KEYS[at], name) or sinks.new)
  sink.name, sink.at, sink.registry = name, at, KEYS[at + 1]
  return sink
end

-- Returns the key of the n-th list of a stage in KEYS; nil if KEYS has fewer.
function sinks.list_key(sink, n)
  return KEYS[sink.at + 1 + n]
end

-- Writes a sink. The scripts call context.mark_changed themselves, since they change more than this.
function sinks.save(sink)
  sink.since = context.now_text
  redis.call("HSET", KEYS[sink.at], sink.name, sinks.format(sink))
end

-- Is a batch of it published in part?
function sinks.is_publishing(sink)
  return sink.publishing ~= sinks.none
end

-- Stages ----------------------------------------------------------------------------------------------------------------

-- Returns a stage to which nothing was added yet. sinks.save_stage writes it.
function sinks.new_stage(queue_name)
  return { queue = queue_name, messages = 0, bytes = 0, elements = 0, special = "0" }
end

-- Returns the stage with this name; nil if the registry has none.
function sinks.stage(sink, name)
  local text = redis.call("HGET", sink.registry, name)
  if not text then return end
  local stage = sinks.parse_stage(text)
  stage.name = name
  return stage
end

-- Returns all stages in the registry.
function sinks.all_stages(sink)
  local stages = {}
  for _, name in ipairs(redis.call("HKEYS", sink.registry)) do
    if name ~= "closed" then stages[#stages + 1] = sinks.stage(sink, name) end
  end
  return stages
end

-- Writes a stage into the registry, and has that expire in `ttl` ms.
function sinks.save_stage(sink, name, stage, ttl)
  sinks.write_registry(sink, name, sinks.format_stage(stage), ttl)
end

-- Returns the last batch for which no stage is accepted any more; -1 if there is none.
function sinks.closed(sink)
  return tonumber(redis.call("HGET", sink.registry, "closed") or -1)
end

-- Accepts no stage any more of this batch and those before it. `ttl`: as of sinks.save_stage.
function sinks.close(sink, batch, ttl)
  sinks.write_registry(sink, "closed", batch, ttl)
end

-- Writes a field of the registry. The registry gets another time to live if it is new or no batch is half published: else the
-- lists of that batch would expire before the registry, and the rest of the batch would count as published.
function sinks.write_registry(sink, field, text, ttl)
  local may_expire = not sinks.is_publishing(sink) or redis.call("EXISTS", sink.registry) == 0
  redis.call("HSET", sink.registry, field, text)
  if may_expire then redis.call("PEXPIRE", sink.registry, ttl) end
end

-- Returns an iterator over the names of the stages of a manifest.
function sinks.stage_names(manifest)
  return string.gmatch(manifest, "[^,]+")
end

-- Returns the encoded names of the queues of a sink's manifest, joined by ","; nil if a stage has expired.
function sinks.queue_names(sink)
  local names = {}
  for name in sinks.stage_names(sink.manifest) do
    local stage = sinks.stage(sink, name)
    if not stage then return end
    names[#names + 1] = stage.queue
  end
  return table.concat(names, ",")
end

-- Batches ---------------------------------------------------------------------------------------------------------------

-- Notes that a batch is published in part: from now on only this manifest may finish it. The stages of a streaming query, which
-- has an identity and may be down for long, do not expire any more. Those of a batch job expire together with the registry.
function sinks.mark_unfinished(sink, stages, batch, manifest)
  sink.publishing, sink.manifest = batch, manifest
  local ttl = sink.identity == sinks.none and redis.call("PTTL", sink.registry) or 0
  local expires = ttl > 0
  for n = 1, #stages do
    if expires then
      redis.call("PEXPIRE", stages[n].list, ttl)
    else
      redis.call("PERSIST", stages[n].list)
    end
  end
  if not expires then redis.call("PERSIST", sink.registry) end
  sinks.save(sink)
end

-- Notes that a batch is published, and removes its stages. `keep`: false deletes the sink, which no later write uses.
function sinks.mark_done(sink, stages, batch, keep)
  for n = 1, #stages do
    redis.call("UNLINK", stages[n].list)
    redis.call("HDEL", sink.registry, stages[n].name)
  end
  sink.committed, sink.publishing, sink.manifest = tonumber(batch), sinks.none, ""
  if keep then sinks.save(sink) else redis.call("HDEL", KEYS[sink.at], sink.name) end
end
