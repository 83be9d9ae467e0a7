-- Give up the rest of a publication that was begun: its stages are removed, and the batch counts as published. What is
-- in the queues already stays there.
-- MS-MQDMPR 3.1.4.5 Transaction Abort
--
-- KEYS message
-- KEYS sinks, registry of the sink, then the list of each stage in the order of the manifest (claims/sink)
-- ARGV[3] sink  encoded
-- ARGV[4] batch  number
-- ARGV[5] keep  "1": remember the batch; "0": the sink is used once and forgotten
-- RETURNS OK "1" if this batch was being published, else "0": nothing was changed
-- FLAGS allow-oom
--- require "core/context"
--- require "claims/sink"
local sinks, registry, first_list = KEYS[3], KEYS[4], 5
local sink_name, batch, keep = ARGV[3], ARGV[4], ARGV[5] == "1"
local reply = context.open()
if reply then return reply end
local s, stages = sink.open(sinks, sink_name), {}
if s.publishing ~= batch then return context.close({ status.OK, "", 0, "0" }) end
for name in string.gmatch(s.manifest, "[^,]+") do
  stages[#stages + 1] = { name = name, list = KEYS[first_list + #stages] }
end
context.mark_changed()
sink.done(sinks, registry, s, stages, batch, keep)
return context.close({ status.OK, "", 0, "1" })
