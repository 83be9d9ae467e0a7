--- require "core/context"
--- require "core/position"
--- require lazy "core/release"
--- require lazy "features/retry"
--- require lazy "features/trace"
--- require "core/store"
--- require lazy "transactions/tx"
-- What happens when a deadline of a queue has passed. Loaded only then.
local lapse = {}

-- The lease of these locks is over. A transaction that was renewed keeps its messages; one that was not is over as
-- a whole: its record goes, and each queue it touched gives its messages back when somebody comes by.
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
  if not (release.plan(q, locked) and release.plan(q, received)) then return end
  release.unlock(q, locked, false)
  release.unlock(q, received, true)
  position.delete(q, sent, "aborted")
end

-- Kinds of timers: "e" expiry and "d" delay of a message; "b" back from ;retry; "k" the window of a dedup key.
function lapse.timers(q, timers)
  local kinds, gone = { e = {}, d = {}, b = {}, k = {} }, {}
  for n = 1, #timers do
    if string.sub(timers[n], 1, 1) == "e" then gone[string.sub(timers[n], 2)] = true end
  end
  for n = 1, #timers do
    local kind, id = string.sub(timers[n], 1, 1), string.sub(timers[n], 2)
    -- Expiry and delay of one message may be due together: then it is gone.
    if kind ~= "d" or not gone[id] then kinds[kind][#kinds[kind] + 1] = id end
  end
  local expired, ready = position.read(q, kinds.e), position.read(q, kinds.d)
  position.may_leave(q, expired, "receive_timeout")
  if #ready > 0 then
    trace.load()
    trace.expiring(q, ready)
  end
  local rested = {}
  if #kinds.b > 0 then
    retry.load()
    trace.load()
    rested = retry.rested(q, kinds.b)
    trace.expiring(q, rested)
  end
  if context.missing then return end
  redis.call("ZREM", q.t, unpack(timers))
  context.mark_changed()
  position.delete(q, expired, "receive_timeout")
  position.arrive(q, ready)
  if #rested > 0 then retry.back(q, rested) end
end
