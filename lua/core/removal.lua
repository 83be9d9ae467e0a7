--- require "core/chunked"
--- require "core/context"
--- require lazy "core/message_state"
--- require "core/position"
--- require lazy "core/record"
--- require "core/store"
--- require lazy "features/features"
--- require lazy "features/trace"
--- used by admin/bulk_actions, admin/operator, admin/redrive, admin/sweep, claims/drain, claims/fill, core/lapse, core/release,
---   core/settle, features/expiry, features/features, features/retry, features/trash, lookup, purge, queue_delete, receive,
---   transactions/commit, transactions/tx_parts
-- Deletes messages in any state (MS-MQDMPR 3.1.7.2.1 Message Position Deleted), with what that means for the index, the features
-- and the counters, and writes what they leave behind. It takes two steps, each with the same entries (core/position) and the same
-- reason:
--
--   removal.plan    before the first write of a script: asks for the queues that copies and acknowledgements go to
--   removal.delete  only if removal.plan has returned true, or if what it plans was planned elsewhere (trace.plan, trace.expiring);
--                   for the reasons dropped, aborted and redriven, which leave nothing behind, no plan is needed
--
-- The reasons. The counter is a field of q.key (removal.counters); the last column says what a message may leave behind
-- (features/trace), besides the acknowledgements that its sender asked for.
--
--   reason            when                                                   counter             leaves
--   receive           its reader took it, or committed its lock                                  copy in the journal
--   receive_rejected  its reader rejected it, or the retry policy did        n_receive_rejected  dead letter, if asked
--   receive_timeout   it expired                                             n_receive_timeout   dead letter, if asked
--   queue_purged      an operator purged the queue or it, or ;trash did      n_queue_purged      dead letter, if asked
--   queue_deleted     its queue is deleted, with its counters                                    dead letter, if asked
--   poison            the retry policy makes it a dead letter                n_poison            dead letter
--   dropped           the retry policy drops it, it was in ;poison long      n_dropped
--                     enough, or its place in the log of actions is needed
--                     (admin/operator)
--   aborted           its transaction, which had sent it, was aborted
--   redriven          it was sent again from a dead letter or a journal                          only its trail (admin/redrive)
--
-- A message that features/retry moves to ;poison is not deleted, but counts in n_poison as well.
--
-- Change together with: a new reason is a line above (tests/contract/test_constants.py compares). One that leaves acknowledgements
-- or dead letters needs a class in trace.class; one that trails tell of, an event in trail.ends. A new counter needs a line in
-- removal.counters and is to be read: by stats.lua with mqredis/commands/features.py, and by core/statistics and overview.lua if
-- it counts as failed there. tests/msmq/test_removals.py has a test for each way out of a queue.
--
-- counters  by reason, the field of q.key that counts the messages; reasons without one are not counted
local removal = { counters = {
  receive_rejected = "n_receive_rejected", receive_timeout = "n_receive_timeout", queue_purged = "n_queue_purged",
  poison = "n_poison", dropped = "n_dropped",
} }

-- Are all queues at hand that removal.delete needs for these entries? If not, context.missing names them.
function removal.plan(q, entries, reason)
  local traced = removal.traced(q, entries, reason)
  if traced[1] then trace.plan(q, traced, reason) end
  return not context.missing
end

-- Returns those of these entries that may leave something behind.
function removal.traced(q, entries, reason)
  local traced = { nil }
  local all = reason == "poison" or reason == "receive" and q.options.journaling
  for n = 1, #entries do
    local rec = entries[n].rec
    local wanted, is_free = all, record.free[string.byte(rec, record.flag_at)]
    if not wanted and reason ~= "aborted" and not is_free and record.is_special(rec) then
      wanted = features.wants(rec).traced
    end
    if wanted then traced[#traced + 1] = entries[n] end
  end
  return traced
end

-- Returns what is stored of these entries, as a table:
--
--   available, locked, stateful, fields   as store.remove takes them
--   held      set of the places of locked messages
--   visible   members of the index for those among them that peeks see
--   bytes     size of all
function removal.parts(q, entries)
  local available, locked, stateful, fields, held, visible, bytes = {}, {}, {}, {}, {}, {}, 0
  for n = 1, #entries do
    local id, rec, state = entries[n].id, entries[n].rec, entries[n].state
    bytes = bytes + position.size(q, entries[n])
    held[n] = state and message_state.is_locked(state)
    local list = held[n] and locked or available
    list[#list + 1] = id
    fields[#fields + 1] = id
    if record.has_large_body(rec) then fields[#fields + 1] = "^" .. id end
    if state then stateful[#stateful + 1] = id end
    if held[n] and message_state.is_visible(state) then visible[#visible + 1] = message_state.visible_member(id) end
  end
  return { available = available, locked = locked, stateful = stateful, fields = fields, held = held,
    visible = visible, bytes = bytes }
end

-- Deletes these entries.
function removal.delete(q, entries, reason)
  if #entries == 0 then return end
  local ids, recs = position.columns_of(entries)
  local parts = removal.parts(q, entries)

  -- Index and features first: they look at what is still stored.
  chunked.run("ZREM", q.index, parts.visible)
  local members, batch = position.special(q, ids, recs, parts.held)
  if members then chunked.run("ZREM", q.index, members) end
  if batch then features.delete(q, batch, reason, parts.held, entries) end

  -- Then what the messages leave behind, for which their bodies are read once more, and at last the messages themselves.
  store.count(q, -#entries, -parts.bytes)
  local traced = removal.traced(q, entries, reason)
  if traced[1] then trace.leave(q, traced, reason) end
  store.remove(q, parts.fields, parts.available, parts.locked, parts.stateful)
  if reason == "aborted" then store.uncount_gone(q, #entries) end -- they were never there
  local counter = removal.counters[reason]
  if counter then store.count_event(q, counter, #entries) end
  context.mark_changed()
end

-- Deletes locked messages, `bytes` in all, whose records need not be read (position.end_reads_record). They leave nothing behind,
-- so nothing is planned. For messages that were received, where no journal wants copies; and for messages that an aborted
-- transaction had sent, which the caller counts (store.uncount_gone). `listed`: the same ids if each message has its element of
-- q.locked and its state; nil if their lock was in the queue's header (core/locks) or in a packed page (claims/claim_pages).
function removal.delete_locked(q, ids, bytes, listed)
  store.count(q, -#ids, -bytes)
  store.remove(q, ids, nil, listed, listed)
  context.mark_changed()
end
