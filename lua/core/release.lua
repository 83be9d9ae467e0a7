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
-- Unlocks messages that were not committed: they become available again, or the retry policy of the queue decides where they
-- go (features/retry), or they are deleted if the queue was purged meanwhile. release.plan comes first, and release.unlock
-- only if it found all queues at hand.
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

-- Does the retry policy decide where this entry goes? It does for messages that a reader of the queue or of its subqueue
-- ;lapsed had; elsewhere only for those that must not come back at once.
function release.judged(q, e)
  if not message_state.is_read(e.st) then return false end
  if e.verdict == release.verdicts.hopeless or e.rest then return true end
  return q.options.retry and (not q.parent or queue.is_subqueue(q, "lapsed"))
end

-- Are all queues at hand that it takes to unlock these entries? If not, context.missing names them.
function release.plan(q, entries)
  for n = 1, #entries do
    local e = { entries[n] }
    if message_state.is_purged(e[1].st) then
      position.may_leave(q, e, "queue_purged")
    else
      if record.is_special(e[1].rec) then
        trace.load()
        trace.expiring(q, e)
      end
      if release.judged(q, e[1]) then
        retry.load()
        retry.plan(q, e)
      end
    end
  end
  return not context.missing
end

-- Unlocks these entries. `aborted`: their transaction was aborted, which is counted.
function release.unlock(q, entries, aborted)
  local back, judged, purged, states, drop, ids, special, retried = {}, {}, {}, {}, {}, {}, false, 0
  for n = 1, #entries do
    local e = entries[n]
    local st = e.st
    ids[n] = e.lid
    if message_state.is_visible(st) then redis.call("ZREM", q.index, "v" .. e.lid) end
    -- What a transaction sends or moves was not delivered.
    e.holder = message_state.is_delivered(st) and st.owner
    special = special or e.holder and record.is_special(e.rec)
    if message_state.is_purged(st) then
      purged[#purged + 1] = e
    else
      local to = release.judged(q, e) and judged or back
      to[#to + 1] = e
      e.retried = e.verdict ~= release.verdicts.returned and st.deliveries > 0 and message_state.is_read(st)
      if e.retried and to == back then retried = retried + 1 end
      if aborted then st.aborts = st.aborts + 1 end
      message_state.free(st)
      if st.deliveries + st.aborts + st.moves > 0 then
        states[#states + 1] = e.lid
        states[#states + 1] = message_state.format(st)
      else
        drop[#drop + 1] = e.lid
      end
    end
  end
  if #ids == 0 then return end
  store.unlock(q, ids, states, drop)
  context.mark_changed()
  if special then
    features.load()
    features.pass("unlock", q, entries)
  end
  position.arrive_entries(q, back)
  if retried > 0 then store.count_event(q, "n_retried", retried) end
  if #judged > 0 then
    retry.load()
    retry.apply(q, judged)
  end
  if #purged > 0 then position.delete(q, purged, "queue_purged") end
end
