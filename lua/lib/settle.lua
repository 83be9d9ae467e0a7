--- require "lib/frame"
--- require "lib/position"
--- require "lib/queue"
--- require lazy "lib/release"
-- Ends of two-phase reads (3.1.7.1.12), each named by the fence it was granted with.
local settle = {}

-- Settles `count` locks written in ARGV from `at` on, three elements each: action, fence, id. Actions: c commit,
-- a abort (back in its place), j reject, x extend by `lease` ms. Returns the lost ones as {id, why, ...}; why is "a" if
-- the message is available again, "f" if somebody else holds it, "g" if it is gone. A lost one is left alone.
function settle.all(q, at, count, lease)
  local lost, ids, held, done = {}, {}, {}, { c = {}, a = {}, j = {}, x = {} }
  if count == 0 then return lost end
  for n = 1, count do ids[n] = ARGV[at + n * 3 - 1] end
  local entries = position.read(q, ids)
  for n = 1, #entries do held[entries[n].lid] = entries[n] end
  for n = 1, count do
    local action, fence, lid = ARGV[at + n * 3 - 3], ARGV[at + n * 3 - 2], ids[n]
    local e = held[lid]
    if e and e.st and string.sub(e.st.kind, 1, 1) == "L" and e.st.fence == fence then
      local to = done[action]
      to[#to + 1] = e
      held[lid] = nil
    else
      lost[#lost + 1] = lid
      lost[#lost + 1] = not e and "g" or (not e.st or string.sub(e.st.kind, 1, 1) == "-") and "a" or "f"
    end
  end
  if #done.a > 0 then
    release.load()
    release.unlock(q, done.a, false)
  end
  if #done.c > 0 then settle.finish(q, done.c, "receive") end
  if #done.j > 0 then settle.finish(q, done.j, "receive_rejected") end
  for n = 1, #done.x do redis.call("ZADD", q.l, frame.now + lease, done.x[n].lid) end
  if #done.x > 0 then
    queue.note(q, frame.now + lease)
    frame.touch()
  end
  return lost
end

-- A purged message leaves as purged, whatever its reader says.
function settle.finish(q, entries, reason)
  local kept, purged = {}, {}
  for n = 1, #entries do
    local to = string.find(entries[n].st.kind, "P", 1, true) and purged or kept
    to[#to + 1] = entries[n]
  end
  position.finish(q, kept, reason)
  position.finish(q, purged, "queue_purged")
end
