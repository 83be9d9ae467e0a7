--- require "core/context"
--- require "core/queue"
--- used by queue_create, queue_ensure, queue_open
-- Creation of queues. Used by queue_create.lua, queue_open.lua (subqueues) and queue_ensure.lua (queues of the broker).
local create = {}

-- Creates a queue, whose first key is `key`, under this name as written, with these pairs of properties. Returns its
-- generation: a number that no queue of the manager had before, so that handles on a deleted queue are recognized.
function create.queue(key, name, ...)
  context.mark_changed()
  local generation = string.format("%.0f", redis.call("HINCRBY", KEYS[1], "generations", 1))
  queue.create(key, generation, ...)
  redis.call("HSET", KEYS[3], name, generation)
  return generation
end
