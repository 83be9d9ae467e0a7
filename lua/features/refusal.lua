--- require "core/context"
--- require lazy "core/record"
--- require lazy "features/trace"
--- used by send
-- Writes what messages that a send refuses leave behind, if they ask for it: a negative arrival acknowledgement in their
-- administration queue, and a dead letter. A message over the manager's quota leaves nothing, since its sender tries again.
--
-- Change together with: send.lua calls this for every status with which it refuses. A new reason here has a class in trace.class,
-- and, if it makes no dead letter, a line in trace.makes_dead_letter (features/trace). ARGV is read as by enqueue.parse
-- (core/enqueue). Tests: tests/msmq/test_traces.py, test_cases.py.
local refusal = {}

-- Returns the reason (features/trace) for a status; nil if messages that are refused with it leave nothing. `transactional`: the
-- send is, and so the queue is not.
function refusal.reason(code, transactional)
  if code == status.ENQUEUE_TIMED_OUT then return "reach_queue_timeout" end
  if code == status.ENQUEUE_QUEUE_QUOTA then return "queue_exceed_quota" end
  if code ~= status.TRANSACTION_USAGE then return end
  return transactional and "not_transactional_queue" or "not_transactional_message"
end

-- Writes what the messages leave behind that are refused with this status; or names in context.missing the queues that this
-- takes. The messages stand in ARGV from place `at` on.
function refusal.trace(q, code, at, transactional)
  local reason, entries = refusal.reason(code, transactional), {}
  if not reason then return end
  -- The whole batch is refused, so each of its messages leaves something.
  while at <= #ARGV do
    local entry = { rec = context.now_text .. ARGV[at] } -- a record (core/record); it never got a lookup id
    if record.has_large_body(entry.rec) then
      at = at + 1
      entry.large = ARGV[at]
    end
    if record.is_special(entry.rec) then entries[#entries + 1] = entry end
    at = at + 1
  end
  trace.plan(q, entries, reason)
  if not context.missing then trace.leave(q, entries, reason) end
end
