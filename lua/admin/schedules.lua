--- require "core/context"
--- require "core/enqueue"
--- require "core/quota"
--- require lazy "core/record"
--- require lazy "features/features"
--- require lazy "features/other_queues"
--- used by schedule_write
-- Sends the messages of schedules. schedule_write has two keys for them behind those of the queues:
--
--   schedules           hash  "<name>": "<next ms> <JSON>" (mqredis/codec/schedules.py); 0: the schedule is paused
--   schedules:messages  hash  "<name>": the message that the schedule sends: a digit for its priority, then as send.lua
--                             takes it; its body is never large
--
-- Times are as users are shown them (context.shown), since a schedule follows the clock on the wall.
--
-- Change together with: send.lua, whose refusals schedules.plan has (but for ENQUEUE_TIMED_OUT, and without the traces that
-- features/refusal leaves: schedule_write reports a refusal to the worker); mqredis/codec/schedules.py, for the two
-- texts; mqredis/commands/schedules.py, which has `most` too (tests/contract/test_arguments.py compares pattern and `most`).
-- Tests: tests/operator/test_schedules.py, tests/worker/test_schedule.py.
--
-- most  schedules that a queue manager may have
local schedules = { most = 1000 }

-- Decides about a message of a schedule, as it is stored. Returns the batch (core/enqueue) with which it goes to the queue
-- of this encoded name, with that queue and the priority; or nil and the status that refuses it. If context.missing is set
-- then, the script ends with it instead, and the client repeats the call with the queues that it names. `slot`: the time in
-- seconds for which the message is sent, which it gets as property "scheduled_for".
function schedules.plan(name, message, slot)
  -- Priority, flag, head, NUL, body; the same pattern as MESSAGE in mqredis/codec/schedules.py.
  if not string.find(message, "^[0-7][0-9a-v][^%z]*%z") then return nil, status.SCHEDULE_DAMAGED end
  local q = other_queues.find(name)
  if not q then return nil, status.QUEUE_NOT_FOUND end
  if q.options.topic then return nil, status.XACT_E_NOTSUPPORTED end
  if q.options.put_inhibited then return nil, status.PUT_INHIBITED end
  -- A record (core/record): the arrival, the flag, the property, which has the type "d", and the rest.
  local rec = context.now_text .. string.sub(message, 2, 2) .. "\1scheduled_for\2d" .. slot .. string.sub(message, 3)
  if q.options.transactional then
    -- The message is a transaction of its own, in which every message is recoverable.
    rec = record.with(record.with(rec, "recoverable", nil), "transaction_id", "schedule")
    rec = record.set_flag(record.set_flag(rec, record.bits.first), record.bits.last)
  end
  local batch = enqueue.new_batch({ nil })
  enqueue.append(batch, rec, nil, q)
  if batch.bytes > q.max_bytes then return nil, status.MESSAGE_TOO_LARGE end
  local code = quota.refuses(q, 1, batch.bytes)
  if not code and batch.asking then code = features.plan(q, batch.asking, false) end
  if code then return nil, code end
  batch.queue, batch.priority = q, string.sub(message, 1, 1)
  return batch
end

-- Puts the message into its queue. `batch`: as schedules.plan returned it.
function schedules.send(batch)
  local q = batch.queue
  enqueue.put(q, enqueue.ids(batch.priority, 1, q.options.transactional), batch)
end
