-- Create queues that the broker keeps beside others: journals, dead letters, ;retry and ;poison. Existing ones stay.
-- MS-MQDMPR 3.1.1.1 SystemDeadletterQueue, 3.1.1.2 JournalQueueReference
--
-- KEYS admin
-- QUEUE[1+] the queues, then the queues they belong to
-- ARGV[3+] name  of each queue to create, as written
-- RETURNS OK
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "features/other_queues"
local reply = context.open()
if reply then return reply end
for n = 1, #ARGV - 2 do
  local name, limit = ARGV[n + 2], 67108864
  local flags
  local owner, part = string.match(name, "^(.-);(.*)$")
  if owner == "system$" then
    flags = part == "deadxact" and "st" or "s"
  else
    local parent = other_queues.find(other_queues.encode(owner))
    flags = parent and (part == "journal" and "s" or parent.flags)
    limit = parent and part ~= "journal" and parent.max_bytes or limit
  end
  if flags and not queue.open(n, 5) then
    context.mark_changed()
    local generation = string.format("%.0f", redis.call("HINCRBY", KEYS[1], "generations", 1))
    queue.create(KEYS[5 + n * 8 - 7], generation, "flags", flags, "max_bytes", limit)
    redis.call("HSET", KEYS[3], name, generation)
  end
end
return context.close({ status.OK })
