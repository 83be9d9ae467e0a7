-- Begin a transaction under an id that the caller chose. One without a chosen id begins with its first operation.
-- MS-MQDMPR 3.1.7.1.8 Create Transaction
--
-- KEYS message
-- ARGV[3] transaction  id
-- ARGV[4] lease  ms
-- RETURNS OK fence, deadline in ms, now in ms
-- RETURNS TRANSACTION_SEQUENCE
-- FLAGS allow-oom
--- require "core/frame"
--- require "transactions/tx"
local reply = frame.open()
if reply then return reply end
local t, code = tx.open(ARGV[3], "+" .. ARGV[4])
if not t then return frame.close({ code }) end
frame.touch()
tx.save(t)
return frame.close({ status.OK, "", 0, t.fence, t.deadline, frame.now })
