--- require "core/context"
--- require "core/position"
--- require "core/queue"
--- require "core/record"
--- require lazy "features/features"
--- require lazy "features/retry"
--- require lazy "features/trace"
--- require "core/message_state"
--- require "core/store"
--- used by claim_release, core/lapse, core/settle, features/retry_policy, features/trail and others
-- Unlocks messages that were not committed. What becomes of one is decided by release.outcome:
--
--   "back"    it is available again
--   "policy"  the retry policy of the queue says where it goes (features/retry)
--   "purged"  it is deleted, since the queue was purged while it was locked
--
-- release.plan comes first, and release.unlock only if it found all queues at hand: those that the retry policy and traces need,
-- also the traces of messages that have expired and are deleted as they become available.
--
-- verdicts: how a reader gave a message back: after a failed attempt; in order, which is no attempt; after a final failure, so
-- that the retry policy ends at once.
local release = { verdicts = { failed = "a", returned = "b", hopeless = "e" } }

-- Notes in an entry how its reader gave it back. `text`: a verdict; behind "b" the ms that the message rests, or nothing, and "i"
-- if it is to be read alone then; behind the others the reason, and properties that describe the failure, in the form of a head
-- (core/record).
function release.given(entry, text)
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
  return q.options.retry and (not q.parent or queue.is_subqueue(q, "lapsed")) and "policy" or "back"
end

-- Are all queues at hand that it takes to unlock these entries? If not, context.missing names them.
function release.plan(q, entries)
  for n = 1, #entries do
    local one = { entries[n] } -- plans take lists
    local outcome = release.outcome(q, one[1])
    if outcome == "purged" then
      position.may_leave(q, one, "queue_purged")
    elseif record.is_special(one[1].rec) then
      trace.load()
      trace.expiring(q, one)
    end
    if outcome == "policy" then
      retry.load()
      retry.plan(q, one)
    end
  end
  return not context.missing
end

-- Unlocks these entries. `aborted`: their transaction was aborted, which is counted.
function release.unlock(q, entries, aborted)
  if not entries[1] then return end
  local lists, retried, delivered = { back = {}, policy = {}, purged = {} }, 0, false
  for n = 1, #entries do
    local entry, state = entries[n], entries[n].state
    local outcome = release.outcome(q, entry)
    lists[outcome][#lists[outcome] + 1] = entry
    -- What a transaction sends or moves was not delivered.
    entry.holder = message_state.is_delivered(state) and state.owner
    delivered = delivered or entry.holder
    entry.retried = entry.verdict ~= release.verdicts.returned and state.deliveries > 0 and message_state.is_read(state)
    if entry.retried and outcome == "back" then retried = retried + 1 end
    if message_state.is_visible(state) then redis.call("ZREM", q.index, message_state.visible_member(entry.id)) end
    if outcome ~= "purged" then release.free(entry, aborted) end -- from here on it is not locked
  end
  release.write(q, entries)
  if delivered and q.has_special then
    features.load()
    features.pass("unlock", q, entries)
  end
  position.arrive_entries(q, lists.back)
  if lists.back[1] and queue.is_subqueue(q, "poison") then
    retry.load()
    retry.renew_failed(q, lists.back)
  end
  if retried > 0 then store.count_event(q, "n_retried", retried) end
  if lists.policy[1] then
    retry.load()
    retry.apply(q, lists.policy)
  end
  position.delete(q, lists.purged, "queue_purged")
end

-- Ends the lock in the state of an entry.
function release.free(entry, aborted)
  if aborted then entry.state.aborts = entry.state.aborts + 1 end
  message_state.free(entry.state)
end

-- Takes entries out of q.locked, and writes their states. A state that says nothing any more is removed.
function release.write(q, entries)
  local ids, states, stateless = { nil }, { nil }, { nil }
  for n = 1, #entries do
    local id, state = entries[n].id, entries[n].state
    ids[n] = id
    local is_new = state.deliveries + state.aborts + state.moves == 0
    if is_new then
      stateless[#stateless + 1] = id
    elseif not message_state.is_locked(state) then -- else it was purged, and position.delete removes the state
      states[#states + 1], states[#states + 2] = id, message_state.format(state)
    end
  end
  store.unlock(q, ids, states, stateless)
  context.mark_changed()
end
