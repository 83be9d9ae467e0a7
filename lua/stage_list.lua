-- What is known of a sink of a data pipeline, and its stages.
-- MS-MQDMPR 3.1.1.14 Transaction
--
-- CALLERS sink in mqredis/commands/stages.py
-- KEYS message
-- KEYS sinks, registry of the sink (claims/sinks)
-- ARGV[3] sink  encoded
-- RETURNS OK identity, committed batch or -1, batch that is being published or "-", its manifest; then of each stage name, encoded
--   queue, messages, bytes
-- FLAGS no-writes
--- require "core/context"
--- require "claims/sinks"
-- Change together with: `sink` in mqredis/commands/stages.py, which takes the elements by place.
-- Tests: tests/client/test_stages.py, test_stage_ends.py.
local sink_name = ARGV[3]
local reply = context.observe()
if reply then return reply end
local sink = sinks.open(sink_name)
reply = context.reply(status.OK, sink.identity, sink.committed, sink.publishing, sink.manifest)
for _, stage in ipairs(sinks.all_stages(sink)) do
  context.append(reply, stage.name, stage.queue, stage.messages, stage.bytes)
end
return context.close(reply)
