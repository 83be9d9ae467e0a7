--- require "core/context"
--- require "core/queue"
--- require "core/statistics"
--- used by queue_create, queue_ensure, queue_open
-- Creates queues: those of users, subqueues, and queues of the broker. For scripts with "KEYS admin", in which KEYS[1] is meta
-- and KEYS[3] the hash of queues, "<name>": generation. queue_delete.lua and queue_close.lua remove what is written here.
-- docs/key-layout.md has the fields of a queue's hash. Tests: tests/client/test_create.py, tests/conformance/test_delete.py.
local create = {}

-- Creates a queue that does not exist yet. `key`: the first of its keys; `name`: as users write it; then more fields of its hash,
-- as pairs of name and value. Returns its generation: a number that no queue of the manager had before, so that handles on a
-- deleted queue are recognized.
function create.queue(key, name, ...)
  context.mark_changed()
  local meta, queues = KEYS[1], KEYS[3]
  local generation = string.format("%.0f", redis.call("HINCRBY", meta, "generations", 1))
  redis.call("HSET", key, "generation", generation, "created", context.now, "modified", context.now,
    "index", queue.never, "statistics", statistics.begin(), ...)
  queue.write_first(key)
  redis.call("HSET", queues, name, generation)
  return generation
end
