--- require "core/context"
--- used by stage, stage_discard, stage_list, stage_publish, stage_withdraw
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
local sink = {}

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

-- Reads a sink. Its field `known` tells whether it is stored; else it is a new one. `key`: of the hash of sinks.
function sink.open(key, name)
  local text = redis.call("HGET", key, name)
  local s = sink.parse(text or "- -1 - 0 ")
  s.name, s.known = name, text and true or false
  return s
end

-- Writes a sink.
function sink.save(key, s)
  s.since = context.now_text
  redis.call("HSET", key, s.name, sink.format(s))
  context.mark_changed()
end

-- Returns the stage with this name; nil if the registry has none.
function sink.stage(registry, name)
  local text = redis.call("HGET", registry, name)
  if not text then return end
  local stage = sink.parse_stage(text)
  stage.name = name
  return stage
end

-- Writes a stage into the registry.
function sink.save_stage(registry, name, stage)
  redis.call("HSET", registry, name, sink.format_stage(stage))
end

-- May the registry, which is about to be written, get another time to live? Yes, if it is new or no batch is half published.
-- Else the lists of that batch would expire before the registry, and the rest of the batch would count as published.
function sink.may_expire(registry, s)
  return s.publishing == "-" or redis.call("EXISTS", registry) == 0
end

-- Returns an iterator over the names of the stages of a manifest.
function sink.stage_names(manifest)
  return string.gmatch(manifest, "[^,]+")
end

-- Returns the encoded names of the queues of a sink's manifest, joined by ","; nil if a stage has expired.
function sink.queue_names(registry, s)
  local names = {}
  for name in sink.stage_names(s.manifest) do
    local stage = sink.stage(registry, name)
    if not stage then return end
    names[#names + 1] = stage.queue
  end
  return table.concat(names, ",")
end

-- Notes that a batch is published in part: from now on only this manifest may finish it. The stages of a streaming query, which
-- has an identity and may be down for long, do not expire any more. Those of a batch job expire together with the registry.
function sink.mark_unfinished(key, registry, s, stages, batch, manifest)
  s.publishing, s.manifest = batch, manifest
  local ttl = s.identity == "-" and redis.call("PTTL", registry) or 0
  local expires = ttl > 0
  for n = 1, #stages do
    if expires then
      redis.call("PEXPIRE", stages[n].list, ttl)
    else
      redis.call("PERSIST", stages[n].list)
    end
  end
  if not expires then redis.call("PERSIST", registry) end
  sink.save(key, s)
end

-- Notes that a batch is published, and removes its stages. `keep`: false deletes the sink, which no later write uses.
function sink.mark_done(key, registry, s, stages, batch, keep)
  for n = 1, #stages do
    redis.call("UNLINK", stages[n].list)
    redis.call("HDEL", registry, stages[n].name)
  end
  s.committed, s.publishing, s.manifest = tonumber(batch), "-", ""
  if keep then sink.save(key, s) else redis.call("HDEL", key, s.name) end
end
