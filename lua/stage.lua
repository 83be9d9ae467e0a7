-- Lay aside messages that a data pipeline may publish later. Nobody sees them; nothing counts them; Redis forgets them.
-- MS-MQDMPR 3.1.7.1.9 Enqueue Message
--
-- KEYS message
-- KEYS sinks, registry of the sink, the stage's list (claims/sink)
-- ARGV[3] sink  encoded
-- ARGV[4] batch  number
-- ARGV[5] stage  unique name: never that of another try
-- ARGV[6] queue  encoded name
-- ARGV[7] ttl  ms until Redis forgets it
-- ARGV[8] messages  in this call
-- ARGV[9] bytes  in this call, as the quota will count them
-- ARGV[10] special  "1": some asks the broker for something
-- ARGV[11+] message  priority digit, flag digit, head, NUL, body (core/record); behind one with flag bit 8 its large
--   body
-- RETURNS OK "1" if the batch was published or is being published already: nothing was laid aside
-- RETURNS LOCK_LOST why: closed
--- require "core/context"
--- require "claims/sink"
local reply = context.open()
if reply then return reply end
local batch = tonumber(ARGV[4])
local s = sink.open(KEYS[3], ARGV[3])
if batch <= s.committed or s.publishing == ARGV[4] then return context.close({ status.OK, "", 0, "1" }) end
local closed = tonumber(redis.call("HGET", KEYS[4], "closed") or -1)
if batch <= closed then return context.close({ status.LOCK_LOST, "", 0, "closed" }) end
context.mark_changed()
local known = sink.stage(KEYS[4], ARGV[5]) or { messages = 0, bytes = 0, elements = 0, special = "0" }
redis.call("HSET", KEYS[4], ARGV[5], table.concat({ ARGV[6], known.messages + tonumber(ARGV[8]),
  string.format("%.0f", known.bytes + tonumber(ARGV[9])), known.elements + #ARGV - 10,
  ARGV[10] == "1" and "1" or known.special }, " "))
redis.call("PEXPIRE", KEYS[4], ARGV[7])
redis.call("RPUSH", KEYS[5], unpack(ARGV, 11))
redis.call("PEXPIRE", KEYS[5], ARGV[7])
return context.close({ status.OK, "", 0, "0" })
