-- Forget a few sessions that were not used for their time to live. List temporary queues whose owner is gone:
-- "reply$.<session>.<number>" of sessions that are closed or forgotten.
-- MS-MQDMPR has no temporary queues: docs/semantics.md
--
-- CALLERS orphans in mqredis/commands/features.py
-- KEYS admin
-- RETURNS OK names
-- FLAGS allow-oom
--- require "core/context"
--- require "core/session"
-- Change together with: mqredis/operations/request.py, which makes these names. QueueManager.maintain deletes the queues.
-- Tests: tests/msmq/test_requests.py.
local meta, queues = KEYS[1], KEYS[3]
local reply = context.open()
if reply then return reply end
session.sweep()
reply = context.reply(status.OK)
for _, name in ipairs(redis.call("HKEYS", queues)) do
  local owner = string.match(name, "^reply%$%.(%d+)%.%d+$")
  if owner and redis.call("HEXISTS", meta, owner) == 0 then reply[#reply + 1] = name end
end
return context.close(reply)
