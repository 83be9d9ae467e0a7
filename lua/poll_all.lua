-- For all queues on which a process waits: is a message available or a timer due? And for all slots that wait: was a lock
-- handed to the reader? Changes nothing.
-- MS-MQDMPR 3.1.7.3.1 Wait For New Message
--
-- CALLERS poll_all in mqredis/commands/manager.py
-- KEYS message
-- QUEUE[1+] the queues
-- ARGV[3+] slot, sequence  slots that wait, each with the sequence of its last call
-- RETURNS OK for each queue "1" (poll it now) or "0", then ms until its next timer or -1; for each slot "1" (a call was made
--   for it: poll now) or "0"
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/timers"
-- Change together with: mqredis/drivers/waiting/table.py, which makes the call for all readers of a process; waiting/handoff, which
-- keeps a reply for a slot. Tests: tests/client/test_poll_all.py, tests/drivers/test_poll_all.py.

-- The headers of the queues and the slots are read with what every call reads of meta (context.open). This call has no token.
local queues = queue.count_keys()
local fields, values_before = { "config", "counters", "" }, 3
for n = 1, queues do fields[values_before + n] = queue.nth_key(n) end
for n = 3, #ARGV, 2 do fields[#fields + 1] = ARGV[n] end
local meta = redis.call("HMGET", KEYS[1], unpack(fields))
local reply = context.open(nil, meta)
if reply then return reply end
reply = context.reply(status.OK)

-- Returns ms until the queue's next timer, 0 if one is due, -1 if there is none. q.due is never later than the first timer, so the
-- timers are read only when it has come.
local function ms_to_timer(q)
  if queue.is_due(q) then return timers.next(q) end
  return q.due and q.due - context.now or -1
end

for n = 1, queues do
  local q = queue.read(n, nil, meta[values_before + n])
  local ms = q and ms_to_timer(q) or 0 -- of a queue that was deleted: its readers are to find that out
  local poll_now = not q or ms == 0 or redis.call("ZCARD", q.available) > 0
  context.append(reply, poll_now and "1" or "0", ms)
end

local at = values_before + queues
for n = 3, #ARGV, 2 do
  local sequence = ARGV[n + 1]
  at = at + 1
  local kept = meta[at] -- the reply that the slot keeps (core/context)
  -- While its reader waits, only a sender that hands a lock over makes a call for a slot (waiting/handoff).
  local was_called = kept and context.reply_sequence(kept) ~= sequence
  reply[#reply + 1] = was_called and "1" or "0"
end
return context.close(reply)
