-- Store messages in a stage, from which a data pipeline may publish them later (claims/sinks). Readers do not see them,
-- quotas do not count them, and they expire after `ttl`.
-- MS-MQDMPR 3.1.7.1.9 Enqueue Message
--
-- CALLERS stage in mqredis/commands/stages.py
-- KEYS message
-- KEYS sinks, registry of the sink, the stage's list (claims/sinks)
-- ARGV[3] sink  encoded
-- ARGV[4] batch  number
-- ARGV[5] stage  name, without commas and spaces; a task that is tried again takes another one, and several calls may append to one
--   stage
-- ARGV[6] queue  encoded name, the same in all calls for one stage
-- ARGV[7] ttl  ms until the stage expires
-- ARGV[8] messages  number of messages in this call
-- ARGV[9] bytes  of these messages, as the quota will count them
-- ARGV[10] special  "1" if a message uses a feature of the broker (features/)
-- ARGV[11+] message  flag digit, head, NUL, body (core/record); one with flag bit 8 is followed by its large body; at most 1000
--   messages (CALL_MESSAGES in mqredis/spark/staging.py)
-- RETURNS OK "1" if the batch was published or is being published already and nothing was stored, else "0"
-- RETURNS LOCK_LOST "closed": no stage of this batch is accepted any more (stage_discard.lua)
--- require "core/context"
--- require "claims/sinks"
-- Change together with: mqredis/spark/rows.py and mqredis/spark/pipelines/migrate.py, which make the messages;
-- claims/publish, which reads them. Tests: tests/client/test_stages.py, tests/spark/test_batch.py.
local sink_name, batch, name, queue_name, ttl = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local messages, bytes, is_special = tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10] == "1"
local elements = #ARGV - 10 -- of the list: a large body is one, too
local reply = context.open()
if reply then return reply end
local sink, number = sinks.open(sink_name), tonumber(batch)
if number <= sink.committed or sink.publishing == batch then return context.close(context.reply(status.OK, "1")) end
if number <= sinks.closed(sink) then return context.close(context.reply(status.LOCK_LOST, "closed")) end
context.mark_changed()
local stage = sinks.stage(sink, name) or sinks.new_stage(queue_name)
stage.messages, stage.bytes = stage.messages + messages, stage.bytes + bytes
stage.elements, stage.special = stage.elements + elements, is_special and "1" or stage.special
sinks.save_stage(sink, name, stage, ttl)
local list = sinks.list_key(sink, 1)
redis.call("RPUSH", list, unpack(ARGV, 11))
redis.call("PEXPIRE", list, ttl)
return context.close(context.reply(status.OK, "0"))
