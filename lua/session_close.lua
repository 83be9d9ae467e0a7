-- Close a session: its slots, what they remember, and its handles are gone.
-- MS-MQDMPR 3.1.1.1 QueueManager
--
-- KEYS admin
-- ARGV[3] session  number
-- RETURNS OK
-- FLAGS allow-oom
--- require "core/frame"
--- require "core/session"
local reply = frame.open()
if reply then return reply end
session.drop(ARGV[3])
session.handles({ [ARGV[3]] = true })
return frame.close({ status.OK })
