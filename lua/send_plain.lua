-- Put one plain message into a queue that asks for nothing and in which nobody waits, with no more keys than that takes.
-- MS-MQDMPR 3.1.7.1.9 Enqueue Message
--
-- KEYS plain
-- ARGV[3] generation  of the queue behind the handle
-- ARGV[4] priority  a digit
-- ARGV[5] message  flag digit, head, NUL, body (core/record)
-- RETURNS OK id of the message
-- RETURNS KEYS_CHANGED nothing was done: it takes send.lua, with all keys
--- require "core/context"
--- require "core/straight_send"
local reply, meta, time = straight_send.one()
reply = reply or context.open(false, meta, time)
return reply or context.close({ status.KEYS_CHANGED, "", 0 })
