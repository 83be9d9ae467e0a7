-- The sessions whose readers wait in these queues. Changes nothing.
-- MS-MQDMPR 3.1.7.3.1 Wait For New Message
--
-- CALLERS waiters in mqredis/commands/inspection.py
-- KEYS message
-- QUEUE[1+] the queues
-- RETURNS OK for each of the first queues (the others are for the next call) "<session>:<readers> ...", "" if no reader waits. At
--   most 1,000 readers of a queue are counted
-- FLAGS no-writes
--- require "core/context"
--- require "core/queue"
--- require lazy "waiting/waiter_text"
-- Change together with: `waiters` in mqredis/commands/inspection.py, which parses the texts.
-- Tests: tests/inspection/test_holders.py.
-- budget: readers and queues that one call examines; most: readers of one queue that are counted.
local budget, most = 2000, 1000
local reply = context.observe()
if reply then return reply end
reply = context.reply(status.OK)
for n = 1, queue.count_keys() do
  if budget <= 0 then break end
  local q = queue.read(n)
  local members = q and q.waiting and redis.call("ZRANGE", q.waiters, 0, most - 1) or {}
  local readers, told = {}, {} -- readers: how many, by number of the session; told: the same as texts
  for k = 1, #members do
    local number = context.session_of(waiter_text.parse(members[k]) or "")
    if number then readers[number] = (readers[number] or 0) + 1 end
  end
  for number, count in pairs(readers) do told[#told + 1] = number .. ":" .. count end
  table.sort(told)
  reply[#reply + 1] = table.concat(told, " ")
  budget = budget - 1 - #members
end
return context.close(reply)
