--- require "lib/frame"
--- require "lib/position"
--- require "lib/record"
-- The way back of a MessagePosition: Locked -> Available, or Deleted if the queue was purged meanwhile.
local release = {}

-- Locked -> where it belongs now: back in its old place, or away if the queue was purged meanwhile.
-- `aborted`: count it as an abort of the transaction that had received it.
function release.unlock(q, entries, aborted)
  local back, purged, states, drop, ids = {}, {}, {}, {}, {}
  for n = 1, #entries do
    local e = entries[n]
    local st = e.st
    ids[n] = e.lid
    if string.find(st.kind, "V", 1, true) then redis.call("ZREM", q.i, "v" .. e.lid) end
    if string.find(st.kind, "P", 1, true) then
      purged[#purged + 1] = e
    else
      back[#back + 1] = e
      if aborted then st.aborts = st.aborts + 1 end
      st.kind, st.owner, st.fence = "-", "-", 0
      if st.deliveries + st.aborts + st.moves > 0 then
        states[#states + 1] = e.lid
        states[#states + 1] = record.text(st)
      else
        drop[#drop + 1] = e.lid
      end
    end
  end
  if #ids == 0 then return end
  redis.call("ZREM", q.l, unpack(ids))
  if #states > 0 then redis.call("HSET", q.s, unpack(states)) end
  if #drop > 0 then redis.call("HDEL", q.s, unpack(drop)) end
  frame.touch()
  position.arrive(q, back)
  if #purged > 0 then position.delete(q, purged, "queue_purged") end
end
