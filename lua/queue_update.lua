-- Change properties of a queue. Messages that are in the queue stay, whatever a new quota says.
-- MS-MQDMPR 3.1.1.2 Queue
--
-- CALLERS update in mqredis/commands/queues.py
-- KEYS admin
-- QUEUE[1] the queue
-- QUEUE[2+] its subqueues, then queues that KEYS_CHANGED named
-- ARGV[3] to_set  letters of properties (core/queue_config), "" none
-- ARGV[4] to_clear  the same
-- ARGV[5+] property  field and value, in turn (docs/key-layout.md)
-- RETURNS OK
-- RETURNS QUEUE_NOT_FOUND
-- RETURNS KEYS_CHANGED encoded names of subqueues and others that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/queue_config"
--- require "core/timers"
--- require "features/other_queues"
--- require "waiting/notify"
--- require "waiting/waiters"
-- Change together with: `update` in mqredis/commands/queues.py, which makes letters and fields (tests/contract/test_fields.py
-- compares). Tests: tests/msmq/test_delivery.py, tests/client/test_create.py.
local to_set, to_clear = ARGV[3], ARGV[4]
local reply = context.open()
if reply then return reply end
local q = other_queues.find(queue.nth_name(1, queue.admin_keys))
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end
local family = other_queues.family(q)
if context.missing then return context.close(context.missing) end
-- What is due was due under the properties that the queue has had until now.
for n = 1, #family do timers.serve(family[n]) end
if context.missing then return waiters.finish(q, context.missing) end
context.mark_changed()
local flags = "" -- each letter once
for flag in string.gmatch(q.flags .. to_set, ".") do
  if not string.find(to_clear, flag, 1, true) and not string.find(flags, flag, 1, true) then
    flags = flags .. flag
  end
end
redis.call("HSET", q.key, "flags", flags, "modified", context.now, unpack(ARGV, 5))
queue.save_config(q)
reply = waiters.finish(q, { status.OK })
if queue_config.parse_options(to_set).get_inhibited then -- readers are refused from now on
  for n = 1, #family do notify.all(family[n]) end
end
return reply
