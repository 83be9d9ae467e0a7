-- Names of all queues, subqueues included.
-- MS-MQDMPR 3.1.1.1 QueueManager, QueueCollection
--
-- CALLERS names in mqredis/commands/queues.py
-- KEYS admin
-- RETURNS OK names
-- FLAGS no-writes
--- require "core/context"
-- admin/create writes the names into this hash. Tests: tests/conformance/test_open.py.
local queues = KEYS[3]
local reply = context.observe()
if reply then return reply end
reply = context.reply(status.OK)
for n, name in ipairs(redis.call("HKEYS", queues)) do reply[n + 3] = name end
return context.close(reply)
