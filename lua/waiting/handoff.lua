--- require "core/context"
--- require lazy "core/position"
--- require lazy "core/release"
--- require "core/store"
-- A reader that waits for one lock leaves a call open: its member in q.w says with which lease it would lock (",<ms>"
-- behind the tag). Whoever sends one plain message makes that call for it, under the token that its next look will
-- carry, and publishes the reply on its bell (docs/decisions/0036). So the reader is answered without a look; a look
-- all the same, because the publication was lost or the wait is over, gets the kept reply, as any repeated call does.
local handoff = {}

-- The key and the channel of a slot's bell, if anybody listens to this very channel; nothing if it may not be asked.
function handoff.bell(slot, database)
  local bell = string.sub(KEYS[1], 1, -5) .. "bell:" .. slot
  local channel = "__keyspace@" .. database .. "__:" .. bell
  local listeners = redis.pcall("PUBSUB", "NUMSUB", channel)
  if listeners[2] and listeners[2] ~= 0 then return bell, channel end
end

-- Rings it, protected as in waiting/notify: the last writes of a script.
function handoff.ring(bell)
  redis.pcall("SADD", bell, "1")
  redis.pcall("DEL", bell)
end

-- What it takes to answer the first reader that waits: slot, key of its bell, channel, lease in ms, sequence of its next
-- look, what its slot keeps. Nothing if it does not want a lock, nobody listens, or its slot was used for something else
-- since it looked.
function handoff.reader(waiter)
  local match = string.match
  local slot, database, lease = match(waiter, "^(%S+) D [kp](%d+) [^ ,]*,(%d+)$")
  if not slot or slot == ARGV[1] then return end
  local kept = redis.call("HGET", KEYS[1], slot) or ""
  local last, code = match(kept, "^(%d+) %d+ %- (%d+) ")
  if not last or code + 0 ~= status.WAITING then return end
  local bell, channel = handoff.bell(slot, database)
  if not bell then return end
  return slot, bell, channel, lease, string.format("%d", last + 1), kept
end

-- The reply as its slot keeps it. "!": nobody has asked for it yet, see context.token. The one `before` is kept as well:
-- it may have been lost, and is asked for again then.
function handoff.kept(sequence, stamp, lid, number, deadline, before)
  return string.format("%s %s !%s 0 %s %d:%s%d:%s%d:%s1:0\n%s",
    sequence, stamp, lid, number, #number, number, #deadline, deadline, #stamp, stamp, before)
end

-- Says the reply on the bell, protected as ringing is. Where it may not be published the bell alone is rung, and the look
-- finds what is kept.
function handoff.say(channel, bell, slot, sequence, incarnation, stamp, lid, number, deadline, rec)
  -- A record may hold a zero, at which format would end it.
  local said = redis.pcall("PUBLISH", channel, string.format("lock %s %s %s %s %s %s %s %s\n",
    slot, sequence, incarnation, number, deadline, stamp, lid, KEYS[3]) .. rec)
  if type(said) ~= "number" then handoff.ring(bell) end
end

-- The one plain message that became available in this call, which is not written down yet, goes to the reader that waits
-- first. Returns what handoff.say takes. For scripts that have done context.mark_changed.
function handoff.over(q, lid, rec)
  local waiter = redis.call("ZRANGE", q.w, "0", "0")[1]
  local slot, bell, channel, lease, sequence, before = handoff.reader(waiter or "")
  if not slot then return end
  position.load()
  local number, deadline = string.format("%d", context.history), string.format("%d", context.now + lease)
  position.grant(q, { lid }, { rec }, "L", slot, number, deadline)
  q.arrived = nil
  redis.call("ZREM", q.w, waiter)
  redis.call("HSET", KEYS[1], slot, handoff.kept(sequence, context.now_text, lid, number, deadline, before))
  return { channel, bell, slot, sequence, context.incarnation, context.now_text, lid, number, deadline, rec }
end

-- Does this queue still hold the lock that this call's slot was handed (context.handover)?
function handoff.held(q)
  local reply = context.handover.reply
  if reply[5] + 0 <= context.now then return false end
  local text = redis.call("HGET", q.s, context.handover.lid)
  return text and string.match(text, " L%S* (%S+ %d+)$") == ARGV[1] .. " " .. reply[4]
end

-- Its reader has asked for it, and is told how late it is: what is kept is now the reply of that call, as any other.
function handoff.asked()
  local reply = context.handover.reply
  reply[6] = context.now_text
  local kept = string.format("%s %s %s 0 %d ", ARGV[2], context.now_text, context.handover.lid, reply[3])
  redis.call("HSET", KEYS[1], ARGV[1], context.encode(kept, reply, 4, 7))
end

-- The lock goes back, since its reader gives up: as if it had never been handed over, so no delivery is counted. Where
-- that takes queues which the script does not have, its lease ends it.
function handoff.back(q)
  position.load()
  release.load()
  local entries = position.read(q, { context.handover.lid })
  if not release.plan(q, entries) then return end
  entries[1].st.deliveries = 0
  release.unlock(q, entries, false)
  store.save(q)
end
