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
  for n = 1, #entries do entries[n].lapsed = true end
  if not (release.plan(q, locked) and release.plan(q, received)) then return end
  release.unlock(q, locked, false)
  release.unlock(q, received, true)
  position.delete(q, sent, "aborted")
end

-- Kinds of timers: "e" expiry and "d" delay of a message; "b", "s" and "w" those of features/retry; "k" the window of a
-- dedup key.
function lapse.timers(q, timers)
  local kinds, gone = { e = {}, d = {}, b = {}, s = {}, w = {}, k = {} }, {}
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
  local rested, lapsed, waited = {}, {}, {}
  if #kinds.b + #kinds.s + #kinds.w > 0 then
    retry.load()
    trace.load()
    if #kinds.b > 0 then rested = retry.rested(q, kinds.b, "retry") end
    if #kinds.w > 0 then waited = retry.rested(q, kinds.w, "lapsed") end
    if #kinds.s > 0 then
      lapsed = retry.rested(q, kinds.s, "retry")
      retry.target(q, "lapsed")
    end
    trace.expiring(q, rested)
    trace.expiring(q, lapsed)
    trace.expiring(q, waited)
  end
  if context.missing then return end
  redis.call("ZREM", q.t, unpack(timers))
  context.mark_changed()
  position.delete(q, expired, "receive_timeout")
  position.arrive(q, ready)
  if #rested > 0 then retry.back(q, rested, "retry") end
  if #waited > 0 then retry.back(q, waited, "lapsed") end
  if #lapsed > 0 then retry.isolate(q, lapsed) end
end
