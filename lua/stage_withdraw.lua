-- Abandon a partly published batch: remove its remaining stages and record the batch as committed. Messages that are in
-- queues already stay there.
-- MS-MQDMPR 3.1.4.5 Transaction Abort (differs: what is published stays)
--
-- CALLERS withdraw in mqredis/commands/stages.py
-- KEYS message
-- KEYS sinks, registry of the sink, then the list of each stage in the order of the manifest (claims/sinks)
-- ARGV[3] sink  encoded
-- ARGV[4] batch  number
-- ARGV[5] keep  "1": remember the batch; "0": delete the sink, which no later write uses
-- ARGV[6] manifest  names of its stages, with "," between them
-- RETURNS OK "1" if the batch was abandoned; "0" if it is not being published with this manifest: nothing was changed
-- FLAGS allow-oom
--- require "core/context"
--- require "claims/sinks"
-- Change together with: mqredis/operations/publications.py, which calls it for operators and for writes that nobody repeats.
-- Tests: tests/client/test_stages.py, test_stage_ends.py.
local sink_name, batch, keep, manifest = ARGV[3], ARGV[4], ARGV[5] == "1", ARGV[6]
local reply = context.open()
if reply then return reply end

-- decide -----------------------------------------------------------------------------------------
local sink = sinks.open(sink_name)
if sink.publishing ~= batch or sink.manifest ~= manifest then return context.close(context.reply(status.OK, "0")) end
local stages = {}
for name in sinks.stage_names(manifest) do
  stages[#stages + 1] = { name = name, list = sinks.list_key(sink, #stages + 1) }
end

-- apply ------------------------------------------------------------------------------------------
context.mark_changed()
sinks.mark_done(sink, stages, batch, keep)
return context.close(context.reply(status.OK, "1"))
