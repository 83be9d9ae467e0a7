-- The workers that live, and the pauses that operators have set. Changes nothing.
-- docs/operating.md
--
-- CALLERS listing in mqredis/commands/workers.py
-- KEYS message
-- KEYS workers (admin/workers)
-- RETURNS OK now in ms, the lead of the broker's clock in ms (core/context); then field and text of each worker and each pause, as
--   in admin/workers
-- FLAGS no-writes
--- require "core/context"
--- require "admin/workers"
-- Change together with: mqredis/commands/workers.py, which parses fields and texts. Tests: tests/operator/test_workers.py.
local key = KEYS[3] -- behind meta and txs
local reply = context.observe()
if reply then return reply end
reply = context.reply(status.OK, context.now, context.lead)
local fields = redis.call("HGETALL", key)
for n = 1, #fields, 2 do
  local kind = string.sub(fields[n], 1, 1) -- "w", a letter of pauses, or "o": commands, which are not shown
  if workers.pauses[kind] or kind == "w" and workers.lives(fields[n + 1]) then
    context.append(reply, fields[n], fields[n + 1])
  end
end
return context.close(reply)
