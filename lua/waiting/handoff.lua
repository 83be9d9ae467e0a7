--- require "core/context"
--- require "core/message"
--- require "core/position"
--- require "core/record"
--- require lazy "core/release"
--- require "core/store"
--- require "waiting/notify"
--- used by receive, send, stop_waiting
-- A reader that waits for one lock leaves a call open: its member in q.waiters says with which lease it would lock (",<ms>"
-- behind the tag). A call that sends one plain message makes that call for the reader, under the token that the reader's next
-- call will carry, and publishes the reply (docs/decisions/waiting.md). If the publication is lost, or the wait is over, the next
-- call gets the kept reply, as any repeated call does.
local handoff = {}

-- What it takes to answer the first reader that waits: slot, wake key, channel, lease in ms, sequence of its next call, what
-- its slot keeps. Nothing if it does not want a lock, no client is subscribed to its channel, or its slot was used since.
function handoff.reader(waiter)
  local match = string.match
  local slot, database, lease = match(waiter, "^(%S+) D [kp](%d+) [^ ,]*,(%d+)$")
  if not slot or slot == ARGV[1] then return end
  local kept = redis.call("HGET", KEYS[1], slot) or ""
  if kept == "" or context.reply_ids(kept) ~= "-" or context.reply_status(kept) ~= status.WAITING then return end
  local key, channel = notify.channel(slot, database)
  if (notify.listeners(channel) or 0) == 0 then return end
  return slot, key, channel, lease, string.format("%d", context.reply_sequence(kept) + 1), kept
end

-- Publishes the reply to the reader, protected as a notification is. Where it may not be published the reader is notified
-- alone, and its next call finds what is kept.
function handoff.publish(channel, key, slot, sequence, lid, number, deadline, rec)
  -- A record may hold a zero, at which format would end it.
  local said = redis.pcall("PUBLISH", channel, string.format("lock %s %s %s %s %s %s %s %s\n",
    slot, sequence, context.incarnation, number, deadline, context.now_text, lid, KEYS[3])
    .. (context.lead > 0 and record.shown(rec, context.lead) or rec))
  if type(said) ~= "number" then notify.wake(key) end
end

-- Offers the one message that became available in this call to the reader that waits first. It is handed over if it asks
-- for nothing, in a queue that asks for nothing of all its messages. Returns what handoff.publish takes. For scripts that have marked a change.
function handoff.offer(q, lid, rec)
  if q.flags ~= "" and q.flags ~= "l" or q.parent or not q.arrived or #q.arrived ~= 1 then return end
  if not record.free[string.byte(rec, 14)] then return end
  local waiter = redis.call("ZRANGE", q.waiters, "0", "0")[1]
  local slot, key, channel, lease, sequence, before = handoff.reader(waiter or "")
  if not slot then return end
  local number, deadline = context.history_text, string.format("%d", context.now + lease)
  position.lock(q, { lid }, { rec }, { false }, "L", slot, number, deadline)
  q.arrived = false
  redis.call("ZREM", q.waiters, waiter)
  local reply = { status.OK, "", context.history, number, deadline, context.now_text, 0 }
  local text = context.format_reply(sequence, "!" .. lid, reply)
  context.write(slot, text .. "\n" .. before)
  return { channel, key, slot, sequence, lid, number, deadline, rec }
end

-- Does this queue still hold the lock that this call's slot was handed (context.handover)?
function handoff.held(q)
  local reply = context.handover.reply
  if reply[5] + 0 <= context.now then return false end
  local text = redis.call("HGET", q.states, context.handover.lid)
  return text and string.match(text, " L%S* (%S+ %d+)$") == ARGV[1] .. " " .. reply[4]
end

-- The reply for a reader that asks for the lock: it is told how late it is, and what its slot keeps is now the reply of
-- this call.
function handoff.confirm(q)
  local reply, lid = context.handover.reply, context.handover.lid
  reply[3], reply[6] = context.history, context.now_text
  redis.call("HSET", KEYS[1], ARGV[1], context.format_reply(ARGV[2], lid, reply))
  message.all(q, reply, position.read(q, { lid }))
  return reply
end

-- The lock goes back, since its reader gives up: as if it had never been handed over, so no delivery is counted. Where
-- that takes queues which the script does not have, its lease ends it.
function handoff.back(q)
  release.load()
  local entries = position.read(q, { context.handover.lid })
  if not release.plan(q, entries) then return end
  entries[1].st.deliveries = 0
  release.unlock(q, entries, false)
  store.save(q)
end
