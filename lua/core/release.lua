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
-- release.plan comes first, and release.unlock only if it found all queues at hand.
--
-- verdicts: how a reader gave a message back: after a failed attempt; in order, which is no attempt; after a final failure, so
-- that the retry policy ends at once.
local release = { verdicts = { failed = "a", returned = "b", hopeless = "e" } }

-- Notes in an entry how its reader gave it back. `text`: a verdict; behind "b" the ms that the message rests, or nothing; behind
-- the others the reason, and properties that describe the failure, in the form of a head (core/record).
function release.given(e, text)
  e.verdict = string.sub(text, 1, 1)
  if e.verdict == release.verdicts.returned then
    e.st.uncounted = e.st.uncounted + 1
    e.rest = tonumber(string.sub(text, 2))
  else
    local why, report = string.match(text, "^.([^\1]*)(.*)$")
    e.why, e.report = why ~= "" and why or nil, report ~= "" and report or nil
  end
end

-- Returns what becomes of an entry, which is still locked, as above. The retry policy decides for messages that a reader of the
-- queue or of its subqueue ;lapsed had; elsewhere only for those that must not come back at once.
function release.outcome(q, e)
  if message_state.is_purged(e.st) then return "purged" end
  if not message_state.is_read(e.st) then return "back" end
  if e.verdict == release.verdicts.hopeless or e.rest then return "policy" end
  return q.options.retry and (not q.parent or queue.is_subqueue(q, "lapsed")) and "policy" or "back"
end

-- Are all queues at hand that it takes to unlock these entries? If not, context.missing names them.
function release.plan(q, entries)
  for n = 1, #entries do
    local e = { entries[n] }
    local outcome = release.outcome(q, e[1])
    if outcome == "purged" then
      position.may_leave(q, e, "queue_purged")
    elseif record.is_special(e[1].rec) then
      trace.load()
      trace.expiring(q, e)
    end
    if outcome == "policy" then
      retry.load()
      retry.plan(q, e)
    end
  end
  return not context.missing
end

-- Unlocks these entries. `aborted`: their transaction was aborted, which is counted.
function release.unlock(q, entries, aborted)
  if not entries[1] then return end
  local lists, retried, delivered = { back = {}, policy = {}, purged = {} }, 0, false
  for n = 1, #entries do
    local e = entries[n]
    local outcome = release.outcome(q, e)
    lists[outcome][#lists[outcome] + 1] = e
    -- What a transaction sends or moves was not delivered.
    e.holder = message_state.is_delivered(e.st) and e.st.owner
    delivered = delivered or e.holder
    e.retried = e.verdict ~= release.verdicts.returned and e.st.deliveries > 0 and message_state.is_read(e.st)
    if e.retried and outcome == "back" then retried = retried + 1 end
    if message_state.is_visible(e.st) then redis.call("ZREM", q.index, "v" .. e.lid) end
    if outcome ~= "purged" then release.free(e, aborted) end -- from here on it is not locked
  end
  release.write(q, entries)
  if delivered and q.has_special then
    features.load()
    features.pass("unlock", q, entries)
  end
  position.arrive_entries(q, lists.back)
  if retried > 0 then store.count_event(q, "n_retried", retried) end
  if lists.policy[1] then
    retry.load()
    retry.apply(q, lists.policy)
  end
  position.delete(q, lists.purged, "queue_purged")
end

-- Ends the lock in the state of an entry.
function release.free(e, aborted)
  if aborted then e.st.aborts = e.st.aborts + 1 end
  message_state.free(e.st)
end

-- Takes entries out of q.locked, and writes their states. A state that says nothing any more is removed.
function release.write(q, entries)
  local ids, states, stateless = { nil }, { nil }, { nil }
  for n = 1, #entries do
    local lid, st = entries[n].lid, entries[n].st
    ids[n] = lid
    local is_new = st.deliveries + st.aborts + st.moves == 0
    if is_new then
      stateless[#stateless + 1] = lid
    elseif not message_state.is_locked(st) then -- else it was purged, and position.delete removes the state
      states[#states + 1], states[#states + 2] = lid, message_state.format(st)
    end
  end
  store.unlock(q, ids, states, stateless)
  context.mark_changed()
end
