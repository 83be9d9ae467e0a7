--- require "core/context"
-- Sinks of data pipelines: which batch was published last, so that each batch is published once (docs/decisions/pipelines.md).
-- Called by stage.lua, stage_list.lua, stage_discard.lua and stage_publish.lua. Messages are first kept in stages, one for
-- each task and queue, which Redis forgets after a time to live; then a batch is published by its manifest, the names of
-- its stages joined by ",". This module alone reads and writes these texts:
--
--   sinks, a hash       "<sink>": "<identity> <committed> <publishing> <since ms> <manifest>"
--                       identity: the query that owns the sink, "-" any. committed: the last batch published, -1 none.
--                       publishing: the batch that is being published, "-" none; it is finished by its stored manifest,
--                       by no other. Example: 8b2f0c 41 - 1764000000000 and a space
--   registry, a hash    of one sink; "<stage>": "<queue> <messages> <bytes> <elements> <special>", the queue's name encoded,
--                       special: 1 if a message asks for something. Example: orders 2000 640000 2000 0
--                       "closed": the last batch for which no stage is accepted any more
--   stage, a list       messages as stage.lua takes them; a large body stands behind its message
local sink = {}

function sink.parse(text)
  local identity, committed, publishing, since, manifest = string.match(text, "^(%S+) (%-?%d+) (%S+) (%d+) (%S*)$")
  return { identity = identity, committed = tonumber(committed), publishing = publishing, since = since,
    manifest = manifest }
end

function sink.format(s)
  return string.format("%s %.0f %s %s %s", s.identity, s.committed, s.publishing, s.since, s.manifest)
end

function sink.parse_stage(text)
  local target, messages, bytes, elements, asks = string.match(text, "^(%S+) (%d+) (%d+) (%d+) (%d)$")
  return { queue = target, messages = tonumber(messages), bytes = tonumber(bytes), elements = tonumber(elements),
    special = asks }
end

function sink.format_stage(stage)
  return string.format("%s %.0f %.0f %.0f %s", stage.queue, stage.messages, stage.bytes, stage.elements, stage.special)
end

-- The sink of this name; `known` is nil if nothing was ever published to it.
function sink.open(key, name)
  local text = redis.call("HGET", key, name)
  local s = sink.parse(text or "- -1 - 0 ")
  s.name, s.known = name, text and true or nil
  return s
end

function sink.save(key, s)
  s.since = context.now_text
  redis.call("HSET", key, s.name, sink.format(s))
  context.mark_changed()
end

-- A stage as the registry knows it, or nothing.
function sink.stage(registry, name)
  local text = redis.call("HGET", registry, name)
  if not text then return end
  local stage = sink.parse_stage(text)
  stage.name = name
  return stage
end

function sink.save_stage(registry, name, stage)
  redis.call("HSET", registry, name, sink.format_stage(stage))
end

-- Encoded names of the queues of a manifest, joined by ","; nothing if its stages have expired.
function sink.queues(registry, s)
  local names = {}
  for name in string.gmatch(s.manifest, "[^,]+") do
    local stage = sink.stage(registry, name)
    if not stage then return end
    names[#names + 1] = stage.queue
  end
  return table.concat(names, ",")
end

-- A part of the batch is published: from now on it is finished by this manifest. The stages of a streaming query, which
-- has an identity and may be down for long, do not expire. Those of a batch job expire, all at once.
function sink.begun(key, registry, s, stages, batch, manifest)
  s.publishing, s.manifest = batch, manifest
  local ttl = s.identity == "-" and redis.call("PTTL", registry) or 0
  for n = 1, #stages do
    if ttl > 0 then
      redis.call("PEXPIRE", stages[n].list, ttl)
    else
      redis.call("PERSIST", stages[n].list)
    end
  end
  if ttl <= 0 then redis.call("PERSIST", registry) end
  sink.save(key, s)
end

-- The batch is published, and its stages are removed. `keep`: false for a sink that is used once and forgotten.
function sink.done(key, registry, s, stages, batch, keep)
  for n = 1, #stages do
    redis.call("UNLINK", stages[n].list)
    redis.call("HDEL", registry, stages[n].name)
  end
  s.committed, s.publishing, s.manifest = tonumber(batch), "-", ""
  if keep then sink.save(key, s) else redis.call("HDEL", key, s.name) end
end
