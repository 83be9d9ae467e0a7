-- Close a session: its slots and what they remember are gone.
-- MS-MQDMPR 3.1.1.1 QueueManager
--
-- KEYS admin
-- ARGV[3] session  number
-- RETURNS OK
--- require "lib/frame"
--- require "lib/session"
local reply = frame.open()
if reply then return reply end
session.drop(ARGV[3])
return frame.close({ status.OK })
