--- require "core/context"
-- Sinks of data pipelines: what was published last, so that a batch is published once (docs/decisions/0021).
--
-- KEYS behind those of the queues:
--   sinks     hash  "<sink>": identity committed publishing since_ms manifest
--   registry  hash  of one sink: "<stage>": queue messages bytes elements special; "closed": batch. Redis lets it
--   lapse. stages    list  each: messages as send.lua takes them, a large body behind its message. Redis lets them
--   lapse.
--
-- identity: the query that owns the sink, "-" any. committed: last batch published, -1 none. publishing: the batch that
-- is being published by its manifest (names of stages, joined by ","), "-" none. A batch that was begun is finished by
-- its manifest, whoever comes, never by another one.
local sink = {}

function sink.open(key, name)
  local text = redis.call("HGET", key, name)
  if not text then
    return { name = name, identity = "-", committed = -1, publishing = "-", since = "0", manifest = "" }
  end
  local identity, committed, publishing, since, manifest = string.match(text, "^(%S+) (%-?%d+) (%S+) (%d+) (%S*)$")
  return { name = name, identity = identity, committed = tonumber(committed), publishing = publishing, since = since,
    manifest = manifest, known = true }
end

function sink.save(key, s)
  redis.call("HSET", key, s.name, table.concat({ s.identity, string.format("%.0f", s.committed), s.publishing,
    string.format("%.0f", context.now), s.manifest }, " "))
  context.mark_changed()
end

-- A stage as the registry knows it, or nothing.
function sink.stage(registry, name)
  local text = redis.call("HGET", registry, name)
  if not text then return end
  local target, messages, bytes, elements, hooked = string.match(text, "^(%S+) (%d+) (%d+) (%d+) (%d)$")
  return { name = name, queue = target, messages = tonumber(messages), bytes = tonumber(bytes),
    elements = tonumber(elements), special = hooked }
end

-- Encoded names of the queues of a manifest, joined by ",".
function sink.queues(registry, s)
  local names = {}
  for name in string.gmatch(s.manifest, "[^,]+") do names[#names + 1] = sink.stage(registry, name).queue end
  return table.concat(names, ",")
end

-- A part of the batch is published: from now on it is finished by this manifest, and nothing of it lapses.
function sink.begun(key, registry, s, stages)
  s.publishing, s.manifest = ARGV[4], ARGV[9]
  redis.call("PERSIST", registry)
  for n = 1, #stages do redis.call("PERSIST", stages[n].list) end
  sink.save(key, s)
end

-- The batch is published: its stages go. A sink that is used once is forgotten.
function sink.done(key, registry, s, stages)
  for n = 1, #stages do
    redis.call("UNLINK", stages[n].list)
    redis.call("HDEL", registry, stages[n].name)
  end
  s.committed, s.publishing, s.manifest = tonumber(ARGV[4]), "-", ""
  if ARGV[8] == "1" then sink.save(key, s) else redis.call("HDEL", key, s.name) end
end
