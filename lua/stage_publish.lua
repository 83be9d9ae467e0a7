-- Publish a batch of a data pipeline once: all of its stages, in the order of the manifest. One call publishes a batch up
-- to the limit as a whole. A larger one takes several calls, and readers see its messages after each of them; from the
-- first call on the sink keeps the manifest, and no call with another one publishes anything before the batch is finished.
-- Unlike send.lua it serves no timers, so expired messages count in quotas (docs/semantics.md, row 17), and a refusal leaves no
-- acknowledgement.
-- MS-MQDMPR 3.1.7.1.9 Enqueue Message, 3.1.4.4 Transaction Commit
--
-- CALLERS publish in mqredis/commands/stages.py
-- KEYS message
-- QUEUE[1+] the queues of its stages, then those of their dead letters and acknowledgements
-- KEYS sinks, registry of the sink, then the list of each stage in the order of the manifest (claims/sinks)
-- ARGV[3] sink  encoded
-- ARGV[4] batch  number
-- ARGV[5] identity  query that owns the sink, "-" any
-- ARGV[6] limit  messages that one call publishes at most
-- ARGV[7] queues  how many queues KEYS brings
-- ARGV[8] keep  "1": remember the batch; "0": delete the sink, which no later write uses
-- ARGV[9] manifest  names of the stages, joined by ","
-- RETURNS OK messages published by this call
-- RETURNS CONTINUE messages published by this call: call again
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- RETURNS LOCK_LOST why: identity | fenced | stage | expired; or "pending" with batch, manifest and encoded names of its
--   queues joined by "," of the batch that has to be finished first
-- RETURNS DUPLICATE
-- RETURNS TRANSACTION_USAGE a topic takes no publication
-- RETURNS PUT_INHIBITED
-- RETURNS ENQUEUE_TIMED_OUT
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS ENQUEUE_MANAGER_QUOTA
-- RETURNS ENQUEUE_QUEUE_QUOTA
--- require "core/context"
--- require "core/queue"
--- require "claims/sinks"
--- require "claims/publish"
--- require "waiting/waiters"
--- require "core/store"
-- Change together with: mqredis/operations/pipelines.py, which repeats the call until it answers OK, and finishes a pending batch
-- first; send.lua, whose refusals it has (claims/publish); _WHY in mqredis/commands/stages.py, for the words of LOCK_LOST.
-- Tests: tests/client/test_stages.py.
local sink_name, batch, identity, limit, queue_count = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local keep, manifest = ARGV[8] == "1", ARGV[9]
local reply = context.open()
if reply then return reply end

-- decide -----------------------------------------------------------------------------------------
local sink = sinks.open(sink_name, queue.message_keys + queue_count * queue.parts + 1) -- behind the keys of the queues
local function answer(code, ...) return context.close(context.reply(code, ...)) end
if identity ~= sinks.none and sink.identity ~= sinks.none and sink.identity ~= identity then
  return answer(status.LOCK_LOST, "identity")
end
if tonumber(batch) <= sink.committed then return answer(status.OK, 0) end -- it was published before
if sinks.is_publishing(sink) and (sink.publishing ~= batch or sink.manifest ~= manifest) then
  if tonumber(batch) < tonumber(sink.publishing) then return answer(status.LOCK_LOST, "fenced") end
  -- Another batch, or this one with another manifest, is published in part.
  local names = sinks.queue_names(sink)
  if not names then return answer(status.LOCK_LOST, "expired") end
  return answer(status.LOCK_LOST, "pending", sink.publishing, sink.manifest, names)
end
local is_resumed = sinks.is_publishing(sink) -- an earlier call has published some messages of this batch
local parts, by_name = publish.parts(queue_count, is_resumed)
local stages, code, why = publish.stages(sink, manifest, by_name, is_resumed)
if not stages then return answer(code, why) end
code = not is_resumed and publish.refuses(parts)
for n = 1, #stages do
  if not code and stages[n].special == "1" then code = publish.plan(stages[n]) end
end
if code then return answer(code) end
if context.missing then return context.close(context.missing) end

-- apply ------------------------------------------------------------------------------------------
local published, more = 0, false
context.mark_changed()
for n = 1, #stages do
  local stage = stages[n]
  local taken, used = publish.put(stage, limit - published)
  published = published + taken
  redis.call("LTRIM", stage.list, used, -1)
  if redis.call("EXISTS", stage.list) == 1 then more = true end
end
if identity ~= sinks.none then sink.identity = identity end
if more then
  sinks.mark_unfinished(sink, stages, batch, manifest)
else
  sinks.mark_done(sink, stages, batch, keep)
end
for n = 1, #parts do store.save(parts[n].q) end
reply = context.close(context.reply(more and status.CONTINUE or status.OK, published))
for n = 1, #parts do waiters.notify(parts[n].q) end
return reply
