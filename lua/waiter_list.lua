-- The sessions whose readers wait in these queues. Changes nothing.
-- MS-MQDMPR 3.1.7.3.1 Wait For New Message
--
-- KEYS message
-- QUEUE[1+] the queues
-- RETURNS OK how many of the queues this reply tells of (the others are for the next call), then for each of these
--   "<session>:<readers> ...", "" if nobody waits there. Of a queue the first 1,000 readers count
-- FLAGS no-writes
--- require "core/context"
--- require "core/queue"
-- A call ends when it has looked at so many readers and queues.
local budget, most = 2000, 1000
local reply = context.observe()
if reply then return reply end
reply = { status.OK, "", 0, 0 }
for n = 1, (#KEYS - 2) / 8 do
  if budget <= 0 then break end
  local q = queue.read(n, 2)
  local members = q and q.waiting and redis.call("ZRANGE", q.w, 0, most - 1) or {}
  local readers, told = {}, {}
  for k = 1, #members do
    local number = string.match(members[k], "^(%d+)%.")
    if number then readers[number] = (readers[number] or 0) + 1 end
  end
  for number, count in pairs(readers) do told[#told + 1] = number .. ":" .. count end
  table.sort(told)
  reply[4], reply[n + 4] = n, table.concat(told, " ")
  budget = budget - 1 - #members
end
return context.close(reply)
