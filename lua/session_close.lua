-- Close a session: its slots, what they remember, and its handles are gone.
-- MS-MQDMPR 3.1.1.1 QueueManager
--
-- KEYS admin
-- ARGV[3] session  number
-- RETURNS OK
-- FLAGS allow-oom
--- require "core/context"
--- require "core/session"
local reply = context.open()
if reply then return reply end
session.drop(ARGV[3])
session.handles({ [ARGV[3]] = true })
return context.close({ status.OK })
