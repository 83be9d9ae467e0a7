--- require "core/context"
--- require "core/chunked"
--- require lazy "core/locks"
--- require lazy "core/message_state"
--- require "core/position"
--- require "core/removal"
--- require "core/queue"
--- require lazy "claims/claim_pages"
--- require lazy "core/release"
--- require "core/store"
--- used by receive, settle, unlock
-- Ends or extends the locks of readers (MS-MQDMPR 3.1.7.1.12 Dequeue Message End). A lock is named by its message and by the
-- fence it was granted with, so that a reader whose lease is over cannot end a lock that another reader has now.
--
-- What is settled comes in runs of three arguments: action, fence, ids (16 digits each, nothing between them). The action is a
-- letter, with more behind it of some:
--
--   c        commit: the message is deleted
--   a, b, e  give back: after a failed attempt, without an attempt, after a final failure (release.note_verdict)
--   j        reject; the reason follows the letter
--   x        extend by a lease
--
--   example: "c", "4711", "040000000000002a040000000000002b", then "jno such customer", "4712", "040000000000002c"
--
-- Change together with: mqredis/commands/settlement.py writes the runs, and reads what was lost (tests/contract/test_constants.py
-- compares the letters); mqredis/operations/giveback.py writes what stands behind the letters of workers. A new action stands in
-- settle.list_for, settle.plan and settle.apply. receive.lua and settle.lua take runs from their arguments, unlock.lua makes them.
-- Tests: tests/conformance/test_lock.py, tests/client/test_commit_many.py and, for locks in the header, test_packed_locks.py.
--
-- settle.all decides for all of them before it writes, in one of two ways. A call that commits one lock that is in the queue's
-- header (core/locks) takes that out, and deletes its messages. All others make a plan first, a table with these fields:
--
--   ids, actions, fences   columns: of all messages in the runs
--   committed, bytes       ids of messages that are deleted and whose records need not be read; their bytes
--   unread                 places in the columns of all others, whose records have to be read
--   receive, receive_rejected, queue_purged   entries (core/position) that are deleted, by the reason
--   released, extended     entries that are given back, and whose lease is extended
--   lost                   {id, why, ...}: what settle.all returns
--
-- reasons: the lists of a plan with entries that are deleted
-- lost: why a lock is lost: its message is available again, has another lock, or is gone
-- none_lost: what settle.all returns if no lock is lost; it stays empty
local settle = {
  reasons = { "receive", "receive_rejected", "queue_purged" },
  lost = { available = "a", locked = "f", gone = "g" }, none_lost = {},
}

-- Settles the locks of the runs in a list, as above, from place `from` on; `lease` in ms, for locks that are extended. Returns the
-- lost ones, to which nothing was done, as {id, why, ...}, each `why` one of settle.lost; this list must not be changed. Returns
-- nil, and has settled nothing, if context.missing names queues that KEYS must bring. The caller has opened q with queue.read, has
-- set its parent (queue.open_parent), and saves it.
function settle.all(q, runs, from, lease)
  if not runs[from] then return settle.none_lost end
  if q.locks ~= "" then
    -- Most calls commit one lock as a whole.
    local action, fence, joined_ids = runs[from], runs[from + 1], runs[from + 2]
    if action == "c" and not runs[from + 3] and settle.states_suffice(q) then
      local bytes = locks.take_out(q, fence, joined_ids)
      if bytes then
        removal.delete_locked(q, locks.ids(joined_ids), bytes, nil)
        return settle.none_lost
      end
    else
      queue.expand_locks(q)
    end
  end
  local plan = settle.plan(q, runs, from)
  if plan.unread[1] then settle.plan_entries(q, plan) end
  if context.missing then return end
  settle.apply(q, plan, lease)
  return plan.lost
end

-- Do commits in this queue need no more than a look at the states? Not if a lease may be over, or a journal wants copies.
function settle.states_suffice(q)
  return not queue.is_due(q) and not q.options.journaling
end

-- Decides --------------------------------------------------------------------------------------------------------------

-- Returns the messages of these runs as columns: ids, actions and fences.
function settle.columns(runs, from)
  local ids, actions, fences, count = { nil }, { nil }, { nil }, 0
  for n = from, #runs, 3 do
    local action, fence, joined_ids = runs[n], runs[n + 1], runs[n + 2]
    for at = 1, #joined_ids, 16 do
      count = count + 1
      ids[count], actions[count], fences[count] = string.sub(joined_ids, at, at + 15), action, fence
    end
  end
  return ids, actions, fences
end

-- Returns the plan of these runs, as far as states tell: its fields committed, bytes and unread. The rest, for which records have
-- to be read, is left to settle.plan_entries.
function settle.plan(q, runs, from)
  local ids, actions, fences = settle.columns(runs, from)
  local plan = { ids = ids, actions = actions, fences = fences, committed = { nil }, bytes = 0, unread = { nil },
    receive = {}, receive_rejected = {}, queue_purged = {}, released = {}, extended = {}, lost = {} }
  local states, suffices, seen = chunked.read(q.states, ids), settle.states_suffice(q), {}
  -- Of messages that were locked together many have the same state. size: nil if that does not tell all.
  local state_text, fence, size
  for n = 1, #ids do
    if states[n] ~= state_text or fences[n] ~= fence then
      state_text, fence = states[n], fences[n]
      size = state_text and message_state.plain_lock(state_text, fence)
    end
    if suffices and actions[n] == "c" and size and not seen[ids[n]] then
      seen[ids[n]] = true
      plan.committed[#plan.committed + 1] = ids[n]
      plan.bytes = plan.bytes + size
    else
      plan.unread[#plan.unread + 1] = n
    end
  end
  return plan
end

-- Reads the messages in plan.unread, sorts them into the lists of the plan, and asks for the queues that this takes
-- (context.missing).
function settle.plan_entries(q, plan)
  queue.expand_locks(q)
  local ids, overdue = { nil }, queue.is_due(q)
  for k = 1, #plan.unread do ids[k] = plan.ids[plan.unread[k]] end
  local entries, unsettled = position.read(q, ids), {} -- unsettled: entries by id
  for n = 1, #entries do unsettled[entries[n].id] = entries[n] end
  -- A message may be named twice: then the first time counts.
  for n = 1, #plan.committed do unsettled[plan.committed[n]] = nil end
  for k = 1, #plan.unread do
    local n = plan.unread[k]
    local id, fence, entry = plan.ids[n], plan.fences[n], unsettled[plan.ids[n]]
    if settle.is_held(q, entry, fence, overdue) then
      unsettled[id] = nil
      local list = settle.list_for(plan, entry, plan.actions[n])
      list[#list + 1] = entry
    else
      plan.lost[#plan.lost + 1] = id
      plan.lost[#plan.lost + 1] = settle.why_lost(q, entry, fence)
    end
  end
  for _, reason in ipairs(settle.reasons) do removal.plan(q, plan[reason], reason) end
  if plan.released[1] then release.plan(q, plan.released) end
end

-- Is the message of this entry (nil: there is none) locked by a reader under this fence? `overdue`: leases may be over that no
-- call has served yet.
function settle.is_held(q, entry, fence, overdue)
  local state = entry and entry.state
  if not state or not message_state.is_reader_lock(state) or state.fence ~= fence then return false end
  if not overdue then return true end
  local deadline = redis.call("ZSCORE", q.locked, entry.id)
  return not deadline or tonumber(deadline) > context.now
end

-- Returns the list of the plan that an entry belongs to, and notes in the entry what its reader said. `action`: as in the runs.
function settle.list_for(plan, entry, action)
  local letter = string.sub(action, 1, 1)
  if letter == "x" then return plan.extended end
  if string.find(letter, "[abe]") then
    release.note_verdict(entry, action)
    return plan.released
  end
  -- A commit, or a rejection ("j" and the reason).
  if letter ~= "c" and action ~= "j" then entry.why = string.sub(action, 2) end
  -- A purged message leaves as purged, whatever its reader says.
  if message_state.is_purged(entry.state) then return plan.queue_purged end
  return letter == "c" and plan.receive or plan.receive_rejected
end

-- Returns why a lock with this fence is lost, one of settle.lost. `entry`: the entry of its message, or nil.
function settle.why_lost(q, entry, fence)
  if not entry then return settle.lost.gone end
  local state = entry.state
  local has_other_lock
  if state then
    -- The fence of a claimed message is a number of another kind (claims/claims).
    local is_same = message_state.is_reader_lock(state) and state.fence == fence
    has_other_lock = message_state.is_locked(state) and not is_same
  else
    has_other_lock = claim_pages.find(q, entry.id) -- a claim may hold it
  end
  return has_other_lock and settle.lost.locked or settle.lost.available
end

-- Applies --------------------------------------------------------------------------------------------------------------

-- Does what the plan says.
function settle.apply(q, plan, lease)
  if plan.released[1] then release.unlock(q, plan.released) end
  for _, reason in ipairs(settle.reasons) do removal.delete(q, plan[reason], reason) end
  if plan.committed[1] then removal.delete_locked(q, plan.committed, plan.bytes, plan.committed) end
  for n = 1, #plan.extended do store.extend(q, plan.extended[n].id, context.now + lease) end
  if plan.extended[1] then
    queue.set_arrival(q, context.now + lease) -- readers know the old end of a lease that gets shorter
    context.mark_changed()
  end
end
