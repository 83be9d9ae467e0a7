--- require "lib/frame"
--- require "lib/position"
--- require "lib/queue"
--- require lazy "lib/release"
-- Ends of two-phase reads (3.1.7.1.12), each named by the fence it was granted with.
local settle = {}

-- Settles `count` locks written in ARGV from `at` on, three elements each: action, fence, id. Actions: c commit,
-- a abort (back in its place), j reject (what follows the letter is the reason), x extend by `lease` ms. Returns the
-- lost ones as {id, why, ...}; why is "a" if the message is available again, "f" if somebody else holds it, "g" if it
-- is gone. A lost one is left alone. Returns nothing, and has done nothing, if frame.missing names queues that it takes.
function settle.all(q, at, count, lease)
  local lost, held, done = {}, {}, { c = {}, a = {}, j = {}, x = {}, p = {} }
  if count == 0 then return lost end
  settle.read(q, at, count, held)
  -- More leases were over than one call serves: those that are left are lost all the same.
  local overdue = q.due and q.due <= frame.now
  for n = 1, count do
    local action, fence, lid = ARGV[at + n * 3 - 3], ARGV[at + n * 3 - 2], ARGV[at + n * 3 - 1]
    local e = held[lid]
    if e and e.st and string.byte(e.st.kind) == 76 and e.st.fence == fence
      and not (overdue and settle.lapsed(q, lid)) then
      -- A purged message leaves as purged, whatever its reader says.
      if not done[action] then
        e.why = string.sub(action, 2)
        action = "j"
      end
      local to = e.st.kind ~= "LN" and (action == "c" or action == "j") and string.find(e.st.kind, "P", 2, true)
        and done.p or done[action]
      to[#to + 1] = e
      held[lid] = nil
    else
      lost[#lost + 1] = lid
      lost[#lost + 1] = not e and "g" or (not e.st or e.st.fence == fence or string.byte(e.st.kind) == 45)
        and "a" or "f"
    end
  end
  position.may_leave(q, done.c, "receive")
  position.may_leave(q, done.j, "receive_rejected")
  position.may_leave(q, done.p, "queue_purged")
  if #done.a > 0 then
    release.load()
    release.plan(q, done.a)
  end
  if frame.missing then return end
  if #done.a > 0 then release.unlock(q, done.a, false) end
  if #done.c > 0 then position.finish(q, done.c, "receive") end
  if #done.j > 0 then position.finish(q, done.j, "receive_rejected") end
  if #done.p > 0 then position.finish(q, done.p, "queue_purged") end
  for n = 1, #done.x do redis.call("ZADD", q.l, frame.now + lease, done.x[n].lid) end
  if #done.x > 0 then
    queue.note(q, frame.now + lease)
    frame.touch()
  end
  return lost
end

function settle.lapsed(q, lid)
  local deadline = redis.call("ZSCORE", q.l, lid)
  return deadline and tonumber(deadline) <= frame.now
end

-- Reads what is settled into `held`, by id. A commit of a message that asks for nothing needs no more than its state,
-- and of that only what is looked at here.
function settle.read(q, at, count, held)
  local ids, full = {}, {}
  for n = 1, count do ids[n] = ARGV[at + n * 3 - 1] end
  local journal = string.find(q.flags, "j", 1, true)
  local states = redis.call("HMGET", q.s, unpack(ids))
  for n = 1, count do
    local size, kind, fence
    if states[n] and not journal and ARGV[at + n * 3 - 3] == "c" then
      size, kind, fence = string.match(states[n], "^%d+ %d+ %d+ %d+ (%d+) (L%a*) %S+ (%d+)$")
    end
    if kind and string.find(kind, "N", 2, true) then
      held[ids[n]] = { lid = ids[n], keys = "", st = { size = size, kind = kind, fence = fence } }
    else
      full[#full + 1] = ids[n]
    end
  end
  local entries = position.read(q, full)
  for n = 1, #entries do held[entries[n].lid] = entries[n] end
end
