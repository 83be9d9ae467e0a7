--- require "core/context"
--- require "core/chunked"
--- require lazy "core/locks"
--- require "core/message_state"
--- require "core/position"
--- require "core/queue"
--- require lazy "claims/claim_pages"
--- require lazy "core/release"
--- require "core/store"
--- used by receive, settle, unlock
-- Ends or extends the locks of readers (MS-MQDMPR 3.1.7.1.12 Dequeue Message End). A lock is named by its message and by the
-- fence it was granted with, so that a reader whose lease is over cannot end a lock that another reader has now.
--
-- What is settled comes in runs of three elements: action, fence, ids (16 digits each, nothing between them). The action:
--
--   c  commit: the message is deleted
--   a, b, e  give back: after a failed attempt, without an attempt, after a final failure (release.given)
--   j  reject; the reason follows the letter
--   x  extend by a lease
--
-- mqredis/commands writes the same letters.
local settle = {}

-- Settles the locks of these runs; `lease` in ms. Returns those that were lost, to which nothing was done, as {id, why, ...}:
-- "a" the message is available again, "f" it has another lock, "g" it is gone. Returns nil, and has done nothing, if
-- context.missing names queues that KEYS must bring.
function settle.all(q, runs, lease)
  if not runs[1] then return {} end
  -- More leases were over than one call serves: those that are left are lost all the same.
  local quick = not queue.is_due(q) and not q.options.journaling
  if q.locks ~= "" then
    locks.load()
    if quick and runs[1] == "c" and not runs[4] then
      local bytes, ids = locks.give(q, runs[2], runs[3])
      if bytes then
        position.drop(q, ids, bytes, true)
        return {}
      end
    else
      locks.expand(q)
    end
  end
  local lost = {}
  local plain, bytes, others = settle.sort(q, runs, quick)
  if others and not settle.others(q, others, plain, lost, lease) then return end
  if plain[1] then position.drop(q, plain, bytes) end
  return lost
end

-- Sorts the runs. Returns the ids and bytes of the commits that need no more than a look at the state, and all others as
-- {action, fence, id, ...}, nil if there are none. `quick`: there may be such commits.
function settle.sort(q, runs, quick)
  local ids, size, sub = { nil }, 0, string.sub
  for n = 3, #runs, 3 do
    local text = runs[n]
    for k = 1, #text, 16 do
      size = size + 1
      ids[size] = sub(text, k, k + 15)
    end
  end
  local states = chunked.read(q.states, ids)
  local plain, seen, k, bytes, others, place = { nil }, {}, 0, 0, nil, 0
  for n = 1, #runs, 3 do
    local action, fence, known = runs[n], runs[n + 1], {}
    for _ = 16, #runs[n + 2], 16 do
      place = place + 1
      local lid, text, own = ids[place], states[place], false
      if quick and action == "c" and text then
        -- Of messages locked together most states are the same text, so few are taken apart.
        own = known[text]
        if own == nil then
          own = message_state.plain_lock(text, fence)
          known[text] = own
        end
      end
      if own and not seen[lid] then
        seen[lid] = true
        k = k + 1
        plain[k] = lid
        bytes = bytes + own
      else
        others = others or {}
        others[#others + 1], others[#others + 2], others[#others + 3] = action, fence, lid
      end
    end
  end
  return plain, bytes, others
end

-- Settles `others` of settle.sort; ids that are in `plain`, too, are lost. Fills `lost`. Returns false, and has done nothing, if
-- context.missing is set.
function settle.others(q, others, plain, lost, lease)
  local held, done, ids = {}, { c = {}, a = {}, j = {}, x = {}, p = {} }, {}
  if q.locks ~= "" then locks.expand(q) end
  for n = 3, #others, 3 do ids[n / 3] = others[n] end
  local entries = position.read(q, ids)
  for n = 1, #entries do held[entries[n].lid] = entries[n] end
  for n = 1, #plain do held[plain[n]] = nil end  -- named twice
  local overdue = queue.is_due(q)
  for n = 1, #others, 3 do
    local action, fence, lid = others[n], others[n + 1], others[n + 2]
    local e = held[lid]
    if e and e.st and message_state.is_reader_lock(e.st) and e.st.fence == fence
      and not (overdue and settle.lapsed(q, lid)) then
      local kind = string.sub(action, 1, 1)
      if string.find(kind, "[abe]") then
        release.load()
        release.given(e, action)
        action = "a"
      elseif not done[action] then
        e.why = string.sub(action, 2)
        action = "j"
      end
      -- A purged message leaves as purged, whatever its reader says.
      local to = (action == "c" or action == "j") and message_state.is_purged(e.st) and done.p or done[action]
      to[#to + 1] = e
      held[lid] = nil
    else
      lost[#lost + 1] = lid
      lost[#lost + 1] = settle.why(q, e, fence)
    end
  end
  position.may_leave(q, done.c, "receive")
  position.may_leave(q, done.j, "receive_rejected")
  position.may_leave(q, done.p, "queue_purged")
  if #done.a > 0 then
    release.load()
    release.plan(q, done.a)
  end
  if context.missing then return false end
  if #done.a > 0 then release.unlock(q, done.a, false) end
  if #done.c > 0 then position.finish(q, done.c, "receive") end
  if #done.j > 0 then position.finish(q, done.j, "receive_rejected") end
  if #done.p > 0 then position.finish(q, done.p, "queue_purged") end
  for n = 1, #done.x do store.extend(q, done.x[n].lid, context.now + lease) end
  if #done.x > 0 then
    queue.set_timer(q, context.now + lease)
    context.mark_changed()
  end
  return true
end

-- Returns why a lock with this fence is lost, as settle.all does. `e`: the entry of its message, or nil.
function settle.why(q, e, fence)
  if not e then return "g" end
  if e.st then return (e.st.fence == fence or not message_state.is_locked(e.st)) and "a" or "f" end
  claim_pages.load()
  local list = claim_pages.find(q, e.lid)
  return list and list.seq ~= fence and "f" or "a"
end

-- Is the lease of this lock over, although no call has served it yet?
function settle.lapsed(q, lid)
  local deadline = redis.call("ZSCORE", q.locked, lid)
  return deadline and tonumber(deadline) <= context.now
end
