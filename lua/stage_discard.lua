-- Throw stages of a data pipeline away, and take no more of its batch: a late task must leave nothing behind.
-- MS-MQDMPR 3.1.4.5 Transaction Abort
--
-- KEYS message
-- KEYS sinks, registry of the sink, then the list of each stage (claims/sink)
-- ARGV[3] sink  encoded
-- ARGV[4] batch  number up to which no stage is taken any more, "" closes nothing
-- ARGV[5] ttl  ms for which a closed batch is remembered
-- ARGV[6+] stage  names, in the order of KEYS
-- RETURNS OK stages thrown away
-- FLAGS allow-oom
--- require "core/context"
--- require "claims/sink"
local reply = context.open()
if reply then return reply end
local s, gone = sink.open(KEYS[3], ARGV[3]), 0
local kept = {}
for name in string.gmatch(s.manifest, "[^,]+") do kept[name] = true end
context.mark_changed()
for n = 6, #ARGV do
  if not kept[ARGV[n]] then
    redis.call("UNLINK", KEYS[n - 1])
    gone = gone + redis.call("HDEL", KEYS[4], ARGV[n])
  end
end
if ARGV[4] ~= "" then
  redis.call("HSET", KEYS[4], "closed", ARGV[4])
  redis.call("PEXPIRE", KEYS[4], ARGV[5])
end
return context.close({ status.OK, "", 0, gone })
