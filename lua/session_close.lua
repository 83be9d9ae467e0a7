-- Close the session of the client that calls: its slots with the replies that they keep, and its handles are gone.
-- MS-MQDMPR 3.1.1.1 QueueManager
--
-- CALLERS closing_call in mqredis/drivers/attempt.py
-- KEYS admin
-- ARGV[3] session  number
-- RETURNS OK
-- FLAGS allow-oom
--- require "core/context"
--- require "core/session"
-- Change together with: core/session, whose session.sweep drops the sessions that are not closed. The call has no operation token:
-- no slot is left that could keep its reply. Tests: tests/client/test_close.py, tests/reliability/test_regressions.py.
local number = ARGV[3]
local reply = context.open()
if reply then return reply end
session.drop(number)
session.drop_handles({ [number] = true })
return context.close({ status.OK })
