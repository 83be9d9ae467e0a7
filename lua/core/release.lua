--- require "core/context"
--- require "core/position"
--- require "core/removal"
--- require "core/queue"
--- require lazy "core/record"
--- require lazy "features/features"
--- require lazy "features/retry"
--- require lazy "features/trace"
--- require lazy "core/message_state"
--- require "core/store"
--- used by claim_release, core/lapse, core/settle, features/retry_policy, features/trail, transactions/commit,
---   transactions/tx_parts, waiting/handoff
-- Unlocks messages that stay in their queue: those that their reader did not commit, and those that a committed transaction has
-- sent. It takes two steps, each with the same entries (core/position):
--
--   release.plan    before the first write of a script: asks for all queues that the second step needs, and writes nothing
--   release.unlock  only if release.plan has returned true: ends the locks and writes what becomes of the messages
--
-- Both decide by release.outcome, whose results are
--
--   "back"    the message is available again; if it has expired meanwhile it is deleted as it arrives (position.arrive)
--   "policy"  the retry policy of the queue says where it goes (features/retry)
--   "purged"  it is deleted, since the queue was purged while it was locked
--
-- Change together with: a new verdict stands in mqredis/commands/settlement.py (tests/contract/test_constants.py compares), in
-- settle.list_for (core/settle), and in retry_policy.decide (features/retry_policy). mqredis/operations/giveback.py writes the text
-- of release.note_verdict, which transactions/tx_parts calls, too. A new outcome stands in release.end_locks and release.unlock. An
-- entry counts once as n_retried: here for the outcome "back", in features/retry for "policy". Tests: tests/msmq/test_attempts.py,
-- test_retry.py and, for transactions, test_ends.py.
--
-- verdicts: how a reader gave a message back: after a failed attempt; in order, which is no attempt; after a final failure, so
-- that the retry policy ends at once.
local release = { verdicts = { failed = "a", returned = "b", hopeless = "e" } }

-- Notes in an entry, which is locked, how its reader gave it back. Comes before release.plan. `text`: a verdict; behind "b" the ms
-- that the message rests, or nothing, and "i" if it is to be read alone then (example: "b0i"); behind the others the reason, and
-- properties that describe the failure, in the form of a head (core/record).
function release.note_verdict(entry, text)
  entry.verdict = string.sub(text, 1, 1)
  if entry.verdict == release.verdicts.returned then
    entry.state.uncounted = entry.state.uncounted + 1
    entry.rest, entry.alone = tonumber(string.match(text, "%d+")), string.sub(text, -1) == "i"
  else
    local why, report = string.match(text, "^.([^\1]*)(.*)$")
    entry.why, entry.report = why ~= "" and why or nil, report ~= "" and report or nil
  end
end

-- Returns what becomes of an entry, which is still locked, as above. The retry policy decides for messages that a reader of the
-- queue or of its subqueue ;lapsed had; elsewhere only for those that must not come back at once.
function release.outcome(q, entry)
  if message_state.is_purged(entry.state) then return "purged" end
  if not message_state.is_read(entry.state) then return "back" end
  if entry.verdict == release.verdicts.hopeless or entry.rest then return "policy" end
  local counts_attempts = q.options.retry and (not q.parent or queue.is_subqueue(q, "lapsed"))
  return counts_attempts and "policy" or "back"
end

-- Decide ----------------------------------------------------------------------------------------------------------------

-- Are all queues at hand that release.unlock needs for these entries? If not, context.missing names them.
function release.plan(q, entries)
  for n = 1, #entries do
    local entry, one = entries[n], { entries[n] } -- the plans take lists
    local outcome = release.outcome(q, entry)
    if outcome == "purged" then
      removal.plan(q, one, "queue_purged")
    elseif record.is_special(entry.rec) then
      trace.expiring(q, one)
    end
    if outcome == "policy" then retry.plan(q, one) end
  end
  return not context.missing
end

-- Apply -----------------------------------------------------------------------------------------------------------------

-- Unlocks these entries. `aborted`: true if their transaction was aborted, which their states count.
function release.unlock(q, entries, aborted)
  if not entries[1] then return end
  local by_outcome, any_delivered = release.end_locks(q, entries, aborted)
  release.write_states(q, entries)
  if any_delivered and q.has_special then features.pass("unlock", q, entries) end
  release.give_back(q, by_outcome.back)
  if by_outcome.policy[1] then retry.apply(q, by_outcome.policy) end
  removal.delete(q, by_outcome.purged, "queue_purged")
end

-- Ends the locks in the states of these entries, but for those that are purged, which removal.delete takes while they are locked.
-- Sets their fields holder and retried. Returns lists of the entries by outcome; and whether one of them had been delivered.
function release.end_locks(q, entries, aborted)
  local by_outcome, any_delivered = { back = {}, policy = {}, purged = {} }, false
  for n = 1, #entries do
    local entry, state = entries[n], entries[n].state
    local outcome = release.outcome(q, entry)
    by_outcome[outcome][#by_outcome[outcome] + 1] = entry
    -- What a transaction sends or moves was not delivered.
    entry.holder = message_state.is_delivered(state) and state.owner
    any_delivered = any_delivered or entry.holder
    local is_attempt = entry.verdict ~= release.verdicts.returned
    entry.retried = is_attempt and state.deliveries > 0 and message_state.is_read(state)
    if message_state.is_visible(state) then redis.call("ZREM", q.index, message_state.visible_member(entry.id)) end
    if outcome ~= "purged" then
      if aborted then state.aborts = state.aborts + 1 end
      message_state.free(state)
    end
  end
  return by_outcome, any_delivered
end

-- Takes entries out of q.locked, and writes their states. A state that says nothing any more is removed.
function release.write_states(q, entries)
  local ids, id_states, stateless = { nil }, { nil }, { nil } -- id_states: id, state, id, state, ...
  for n = 1, #entries do
    local id, state = entries[n].id, entries[n].state
    ids[n] = id
    local is_new = state.deliveries + state.aborts + state.moves == 0
    if is_new then
      stateless[#stateless + 1] = id
    elseif not message_state.is_locked(state) then -- else it was purged, and removal.delete removes the state
      id_states[#id_states + 1], id_states[#id_states + 2] = id, message_state.format(state)
    end
  end
  store.unlock(q, ids, id_states, stateless)
  context.mark_changed()
end

-- Makes entries available that are not locked any more.
function release.give_back(q, entries)
  if not entries[1] then return end
  position.arrive_entries(q, entries)
  if q.parent then retry.renew_released(q, entries) end
  local retried = 0
  for n = 1, #entries do
    if entries[n].retried then retried = retried + 1 end
  end
  if retried > 0 then store.count_event(q, "n_retried", retried) end
end
