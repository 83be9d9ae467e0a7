--- require "core/context"
--- require "core/position"
--- require lazy "core/release"
--- require lazy "features/features"
--- require "core/store"
--- require lazy "transactions/tx"
-- What happens when a deadline of a queue has passed. Loaded only then.
local lapse = {}

-- The lease of these locks is over. A transaction that was renewed keeps its messages; one that was not is over as
-- a whole: its record goes, and each queue it touched gives its messages back in the next call on that queue.
function lapse.locks(q, ids)
  release.load()
  tx.load()
  local locked, received, sent = {}, {}, {}
  local entries = position.read(q, ids)
  for n = 1, #entries do
    local e = entries[n]
    local kind = string.sub(e.st.kind, 1, 1)
    local renewed = kind ~= "L" and tx.lease(e.st.owner, e.st.fence)
    if renewed then
      store.extend(q, e.lid, renewed)
    elseif kind == "S" then
      sent[#sent + 1] = e
    elseif kind == "R" then
      received[#received + 1] = e
    else
      locked[#locked + 1] = e
    end
  end
  for n = 1, #entries do entries[n].lapsed = true end
  if not (release.plan(q, locked) and release.plan(q, received)) then return end
  release.unlock(q, locked, false)
  release.unlock(q, received, true)
  position.delete(q, sent, "aborted")
end

-- Timers are over. Their first letter says what they are for (features/features; "k": the window of a dedup key).
function lapse.timers(q, members)
  features.load()
  local ids, gone = {}, {}
  for n = 1, #members do
    local letter, id = string.sub(members[n], 1, 1), string.sub(members[n], 2)
    if letter == "e" then gone[id] = true end
    ids[letter] = ids[letter] or { nil }
  end
  for n = 1, #members do
    local letter, id = string.sub(members[n], 1, 1), string.sub(members[n], 2)
    -- Expiry and delay of one message may be due together: then it is gone.
    if letter ~= "d" or not gone[id] then ids[letter][#ids[letter] + 1] = id end
  end
  local due = { nil }
  for n = 1, #features.list do
    local feature = features.list[n]
    for letter in string.gmatch(feature.timers or "", ".") do
      if ids[letter] then
        local hooks = features.hooks(feature)
        due[#due + 1] = { hooks = hooks, letter = letter, entries = hooks.plan_due(q, ids[letter], letter) }
      end
    end
  end
  if context.missing then return end
  redis.call("ZREM", q.t, unpack(members))
  context.mark_changed()
  for n = 1, #due do due[n].hooks.due(q, due[n].entries, due[n].letter) end
end
