-- What is known of a sink of a data pipeline, and its stages.
-- MS-MQDMPR 3.1.1.14 Transaction
--
-- KEYS message
-- KEYS sinks, registry of the sink (claims/sink)
-- ARGV[3] sink  encoded
-- RETURNS OK identity, committed batch or -1, batch that is being published or "-", its manifest, since in ms, then
--   name, queue,
--   messages, bytes of each stage
--- require "core/context"
--- require "claims/sink"
local reply = context.open()
if reply then return reply end
local s = sink.open(KEYS[3], ARGV[3])
reply = { status.OK, "", 0, s.identity, s.committed, s.publishing, s.manifest, s.since }
for _, name in ipairs(redis.call("HKEYS", KEYS[4])) do
  local stage = name ~= "closed" and sink.stage(KEYS[4], name)
  if stage then
    reply[#reply + 1] = name
    reply[#reply + 1] = stage.queue
    reply[#reply + 1] = stage.messages
    reply[#reply + 1] = stage.bytes
  end
end
return context.close(reply)
