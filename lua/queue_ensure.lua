-- Create the queues that the broker keeps for others, where they are missing: journals, dead letters, ;retry and ;poison.
-- Called by a client when a script has asked for them (KEYS_CHANGED).
-- MS-MQDMPR 3.1.1.1 SystemDeadletterQueue, 3.1.1.2 JournalQueueReference
--
-- KEYS admin
-- QUEUE[1+] the queues, then the queues they belong to
-- ARGV[3+] name  of each queue to create, as written
-- RETURNS OK
-- FLAGS allow-oom
--- require "admin/create"
--- require "core/context"
--- require "core/queue"
--- require "features/other_queues"
local count, first_name = #ARGV - 2, 3
local default_limit = 67108864 -- bytes of a message in a queue of the system or a journal
local reply = context.open()
if reply then return reply end
for n = 1, count do
  local name, limit = ARGV[first_name + n - 1], default_limit
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
    create.queue(KEYS[5 + n * 8 - 7], name, "flags", flags, "max_bytes", limit)
  end
end
return context.close({ status.OK })
