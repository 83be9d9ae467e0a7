--- require "core/context"
--- used by claims/publish, stage, stage_discard, stage_list, stage_publish, stage_withdraw
-- Sinks of data pipelines: the state that makes each batch be published exactly once (docs/decisions/pipelines.md). Messages
-- are first stored in stages, one for each task and queue, which expire. Then a batch is published by its manifest, the names
-- of its stages joined by ",". This module alone reads and writes these texts:
--
--   sinks, a hash       "<sink>": "<identity> <committed> <publishing> <since ms> <manifest>"
--                       identity: the query that owns the sink, "-" none. committed: the last batch published, -1 none.
--                       publishing: the batch that is being published, "-" none; only the stored manifest may finish it.
--                       Example, with an empty manifest: "8b2f0c 41 - 1764000000000 "
--   registry, a hash    of one sink; "<stage>": "<queue> <messages> <bytes> <elements> <special>", the queue's name encoded,
--                       special: 1 if a message uses a feature (features/). Example: orders 2000 640000 2000 0
--                       "closed": the last batch for which no stage is accepted any more
--   stage, a list       messages in the form of stage.lua; a large body is the element after its message
--
-- `s` is a sink as a table: the parts of its text; its `name`; and where its keys stand in KEYS: sinks at the place `at`, its
-- registry behind that, and then the lists of the stages that the call names.
--
-- none: stands for no identity and for no batch. new: the text of a sink that nothing was published to.
local sink = { none = "-", new = "- -1 - 0 " }

-- The stored texts ------------------------------------------------------------------------------------------------------

-- Returns a sink as a table with the parts of its text as fields.
function sink.parse(text)
  local identity, committed, publishing, since, manifest = string.match(text, "^(%S+) (%-?%d+) (%S+) (%d+) (%S*)$")
  return { identity = identity, committed = tonumber(committed), publishing = publishing, since = since,
    manifest = manifest }
end

-- Returns the text of a sink.
function sink.format(s)
  return string.format("%s %.0f %s %s %s", s.identity, s.committed, s.publishing, s.since, s.manifest)
end

-- Returns a stage as a table with the parts of its text as fields.
function sink.parse_stage(text)
  local queue_name, messages, bytes, elements, special = string.match(text, "^(%S+) (%d+) (%d+) (%d+) (%d)$")
  return { queue = queue_name, messages = tonumber(messages), bytes = tonumber(bytes), elements = tonumber(elements),
    special = special }
end

-- Returns the text of a stage.
function sink.format_stage(stage)
  return string.format("%s %.0f %.0f %.0f %s", stage.queue, stage.messages, stage.bytes, stage.elements, stage.special)
end

-- Sinks -----------------------------------------------------------------------------------------------------------------

-- Reads a sink whose keys begin at this place of KEYS, 3 if nil. One that is not stored is a new one.
function sink.open(name, at)
  at = at or 3 -- behind meta and txs
  local s = sink.parse(redis.call("HGET", KEYS[at], name) or sink.new)
  s.name, s.at, s.registry = name, at, KEYS[at + 1]
  return s
end

-- Returns the key of the n-th list of a stage in KEYS; nil if KEYS has fewer.
function sink.list_key(s, n)
  return KEYS[s.at + 1 + n]
end

-- Writes a sink.
function sink.save(s)
  s.since = context.now_text
  redis.call("HSET", KEYS[s.at], s.name, sink.format(s))
  context.mark_changed()
end

-- Is a batch of it published in part?
function sink.is_publishing(s)
  return s.publishing ~= sink.none
end

-- Stages ----------------------------------------------------------------------------------------------------------------

-- Returns the stage with this name; nil if the registry has none.
function sink.stage(s, name)
  local text = redis.call("HGET", s.registry, name)
  if not text then return end
  local stage = sink.parse_stage(text)
  stage.name = name
  return stage
end

-- Returns all stages in the registry.
function sink.all_stages(s)
  local stages = {}
  for _, name in ipairs(redis.call("HKEYS", s.registry)) do
    if name ~= "closed" then stages[#stages + 1] = sink.stage(s, name) end
  end
  return stages
end

-- Writes a stage into the registry, and has that expire in `ttl` ms.
function sink.save_stage(s, name, stage, ttl)
  sink.write_registry(s, name, sink.format_stage(stage), ttl)
end

-- Returns the last batch for which no stage is accepted any more; -1 if there is none.
function sink.closed(s)
  return tonumber(redis.call("HGET", s.registry, "closed") or -1)
end

-- Accepts no stage any more of this batch and those before it. `ttl`: as of sink.save_stage.
function sink.close(s, batch, ttl)
  sink.write_registry(s, "closed", batch, ttl)
end

-- Writes a field of the registry. The registry gets another time to live if it is new or no batch is half published: else the
-- lists of that batch would expire before the registry, and the rest of the batch would count as published.
function sink.write_registry(s, field, text, ttl)
  local may_expire = not sink.is_publishing(s) or redis.call("EXISTS", s.registry) == 0
  redis.call("HSET", s.registry, field, text)
  if may_expire then redis.call("PEXPIRE", s.registry, ttl) end
end

-- Returns an iterator over the names of the stages of a manifest.
function sink.stage_names(manifest)
  return string.gmatch(manifest, "[^,]+")
end

-- Returns the encoded names of the queues of a sink's manifest, joined by ","; nil if a stage has expired.
function sink.queue_names(s)
  local names = {}
  for name in sink.stage_names(s.manifest) do
    local stage = sink.stage(s, name)
    if not stage then return end
    names[#names + 1] = stage.queue
  end
  return table.concat(names, ",")
end

-- Batches ---------------------------------------------------------------------------------------------------------------

-- Notes that a batch is published in part: from now on only this manifest may finish it. The stages of a streaming query, which
-- has an identity and may be down for long, do not expire any more. Those of a batch job expire together with the registry.
function sink.mark_unfinished(s, stages, batch, manifest)
  s.publishing, s.manifest = batch, manifest
  local ttl = s.identity == sink.none and redis.call("PTTL", s.registry) or 0
  local expires = ttl > 0
  for n = 1, #stages do
    if expires then
      redis.call("PEXPIRE", stages[n].list, ttl)
    else
      redis.call("PERSIST", stages[n].list)
    end
  end
  if not expires then redis.call("PERSIST", s.registry) end
  sink.save(s)
end

-- Notes that a batch is published, and removes its stages. `keep`: false deletes the sink, which no later write uses.
function sink.mark_done(s, stages, batch, keep)
  for n = 1, #stages do
    redis.call("UNLINK", stages[n].list)
    redis.call("HDEL", s.registry, stages[n].name)
  end
  s.committed, s.publishing, s.manifest = tonumber(batch), sink.none, ""
  if keep then sink.save(s) else redis.call("HDEL", KEYS[s.at], s.name) end
end
