-- Properties and present state of queues. Counts are of this moment; nothing is changed.
-- MS-MQDMPR 3.1.1.2 Queue
--
-- CALLERS info in mqredis/commands/queues.py, generation in mqredis/commands/queues.py
-- KEYS admin
-- QUEUE[1+] the queues
-- RETURNS OK per queue: "" if none; else how many elements follow: the fields of its hash (docs/key-layout.md) and "header", each
--   with its value; then ready, locked, waiters, handles, those of them that receive, "1" if timers are due
-- FLAGS no-writes
--- require "core/context"
--- require "core/queue"
--- require "core/handle"
--- require "core/timers"
--- require "claims/claim_pages"
-- Change together with: `info` and `_stored` in mqredis/commands/queues.py, which take the six last elements by place.
-- Tests: tests/client/test_queue_headers.py, tests/conformance/test_open.py.
local reply = context.observe()
if reply then return reply end
reply = context.reply(status.OK)
for n = 1, queue.count_keys(queue.admin_keys) do
  local q = queue.read(n, queue.admin_keys)
  if not q then
    reply[#reply + 1] = ""
  else
    local stored, fields = redis.call("HGETALL", q.key), { "header", queue.format_header(q) }
    -- Users are shown times without the lead (core/context). The statistics are long, and stats_history.lua has them.
    for k = 1, #stored, 2 do
      local name, value = stored[k], stored[k + 1]
      if name == "created" or name == "modified" then value = context.shown(value) end
      if name ~= "statistics" then fields[#fields + 1], fields[#fields + 2] = name, value end
    end
    reply[#reply + 1] = #fields + 6
    for k = 1, #fields do reply[#reply + 1] = fields[k] end
    local handles, receivers = handle.all(queue.name(q)), 0
    for k = 1, #handles do
      if handle.receives(handles[k].access) then receivers = receivers + 1 end
    end
    context.append(reply, redis.call("ZCARD", q.available), claim_pages.locked(q), redis.call("ZCARD", q.waiters),
      #handles, receivers, timers.overdue(q) and "1" or "0")
  end
end
return context.close(reply)
