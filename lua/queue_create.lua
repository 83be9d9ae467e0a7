-- Create a queue. Subqueues and the queues of the broker are created by queue_open.lua and queue_ensure.lua.
-- MS-MQDMPR 3.1.7.1.3 Create Queue
--
-- CALLERS create in mqredis/commands/queues.py
-- KEYS admin
-- QUEUE[1] the new queue
-- ARGV[3] name  as written
-- ARGV[4+] property  field and value, in turn (docs/key-layout.md); field flags: letters of the properties that are set
-- RETURNS OK generation
-- RETURNS QUEUE_EXISTS a queue of this name exists; nothing was changed
--- require "admin/create"
--- require "core/context"
--- require "core/queue"
-- Change together with: mqredis/commands/queues.py, which makes the fields of properties (tests/contract/test_fields.py compares);
-- admin/create. Tests: tests/conformance/test_open.py, tests/client/test_create.py.
local name = ARGV[3]
local reply = context.open()
if reply then return reply end
if queue.open(1, queue.admin_keys) then return context.close({ status.QUEUE_EXISTS }) end
local generation = create.queue(queue.nth_key(1, queue.admin_keys), name, unpack(ARGV, 4))
return context.close(context.reply(status.OK, generation))
