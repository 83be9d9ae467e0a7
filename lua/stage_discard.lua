-- Remove stages of a data pipeline, and accept no more for its batch: a late task must leave nothing behind.
-- MS-MQDMPR 3.1.4.5 Transaction Abort
--
-- CALLERS discard in mqredis/commands/stages.py
-- KEYS message
-- KEYS sinks, registry of the sink, then the list of each stage (claims/sinks)
-- ARGV[3] sink  encoded
-- ARGV[4] batch  number up to which no stage is accepted any more, "" closes nothing
-- ARGV[5] ttl  ms for which a closed batch is remembered
-- ARGV[6+] stage  names, in the order of KEYS
-- RETURNS OK number of stages removed
-- FLAGS allow-oom
--- require "core/context"
--- require "claims/sinks"
-- Change together with: DISCARD_PAGE in mqredis/operations/pipelines.py, how many stages a call names.
-- Tests: tests/client/test_stages.py, test_stage_ends.py.
local sink_name, closed, ttl, names = ARGV[3], ARGV[4], ARGV[5], { unpack(ARGV, 6) }
local reply = context.open()
if reply then return reply end
-- needed: names of the stages of a batch that is being published
local sink, needed, removed = sinks.open(sink_name), {}, 0
for name in sinks.stage_names(sink.manifest) do needed[name] = true end
context.mark_changed()
for n = 1, #names do
  if not needed[names[n]] then
    redis.call("UNLINK", sinks.list_key(sink, n))
    removed = removed + redis.call("HDEL", sink.registry, names[n])
  end
end
if closed ~= "" then sinks.close(sink, closed, ttl) end
return context.close(context.reply(status.OK, removed))
