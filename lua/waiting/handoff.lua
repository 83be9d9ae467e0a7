--- require "core/context"
--- require "core/message"
--- require lazy "core/message_state"
--- require "core/position"
--- require "core/queue"
--- require lazy "core/record"
--- require lazy "core/release"
--- require "core/store"
--- require "waiting/notify"
--- require lazy "waiting/waiter_text"
--- used by receive, send, stop_waiting
-- Hands a lock over to a reader that waits for one, so that it gets its message without another call
-- (docs/decisions/waiting.md). A script that sends a single plain message makes the reader's next call for it: it locks the message
-- in the name of the reader's slot, and keeps the reply there under the sequence that the next call will have. Then it publishes
-- the reply on the channel of the slot (notify.channel):
--
--   "lock <slot> <sequence> <incarnation> <fence> <deadline ms> <now ms> <lookup id> <first key of the queue>" LF <record>
--
-- Change together with: mqredis/drivers/waiting/handoff.py reads this text, and makes of it the reply that receive.lua gives for
-- the lock of one message (message.found and message.add in core/message). What receive.lua heeds when it locks a message,
-- handoff.is_plain must rule out, or handoff.offer do as well. send.lua is the only caller of handoff.offer.
-- tests/client/test_handoff.py runs both sides, and compares the replies.
--
-- If the publication is lost, the next call gets the kept reply, as any repeated call does (context.handover). If the reader has
-- given up, stop_waiting gives the lock back; else it ends with its lease.
local handoff = {}

-- The sender's side -----------------------------------------------------------------------------------------------------

-- Locks the one message that became available in this call for the reader that waits first. Returns a table for handoff.publish;
-- nil if nothing is handed over: the message or its queue asks for something, the reader does not wait for a
-- lock, its channel has no subscriber, or its slot was used since it began to wait. For scripts that have marked a change
-- (context.mark_changed).
function handoff.offer(q, id, rec)
  if not handoff.is_plain(q, rec) or not q.arrived or #q.arrived ~= 1 then return end
  local member = redis.call("ZRANGE", q.waiters, "0", "0")[1]
  local slot, database, lease = waiter_text.parse_lock(member or "")
  if not slot or slot == ARGV[1] then return end -- the slot of this very call is not free
  local kept = handoff.kept_wait(slot)
  if not kept then return end
  local key, channel = notify.channel(slot, database)
  if (context.listeners(channel) or 0) == 0 then return end
  local sequence = string.format("%d", context.reply_sequence(kept) + 1)
  local lock = position.reader_lock(message_state.by_reader, slot, lease)
  position.lock(q, { id }, { rec }, { false }, lock)
  q.arrived = false -- it is not there for any other reader
  redis.call("ZREM", q.waiters, member)
  local reply = message.found(lock.fence, lock.deadline, {})
  context.write(slot, context.format_reply(sequence, "!" .. id, reply) .. "\n" .. kept)
  return { channel = channel, key = key, slot = slot, sequence = sequence, id = id, rec = rec, lock = lock }
end

-- Do neither the message nor its queue ask for anything but a trail (letter l of queue_config.letters)? position.lock is all that
-- handoff.offer does, while receive.lua also heeds the other options.
function handoff.is_plain(q, rec)
  return (q.flags == "" or q.flags == "l") and not q.parent and record.free[string.byte(rec, record.flag_at)]
end

-- Returns the text of the reply that a slot keeps (core/context), if it is that of a call which began to wait; else nil.
function handoff.kept_wait(slot)
  local kept = redis.call("HGET", KEYS[1], slot) or ""
  if kept ~= "" and context.reply_ids(kept) == "-" and context.reply_status(kept) == status.WAITING then return kept end
end

-- Publishes the reply. `handed`: what handoff.offer has returned. Where that is not allowed the reader is notified alone, and its
-- next call finds what is kept. For the end of a script, when all is written.
function handoff.publish(handed)
  -- The record is not an argument of format, which would end it at a zero byte.
  local head = string.format("lock %s %s %s %s %s %s %s %s\n", handed.slot, handed.sequence, context.incarnation,
    handed.lock.fence, handed.lock.deadline, context.now_text, handed.id, queue.nth_key(1))
  local shown = context.lead > 0 and record.shown(handed.rec, context.lead) or handed.rec
  local receivers = redis.pcall("PUBLISH", handed.channel, head .. shown)
  if type(receivers) ~= "number" then notify.wake(handed.key) end -- it was refused
end

-- The reader's side, in a call whose context.handover is set --------------------------------------------------------------
--
-- context.handover (core/replay) has the id of the message, and the reply that handoff.offer has kept: status, incarnation,
-- history, then what message.found has put into it.

-- Does this queue still hold the lock that was handed over? `q` is one of queue.open, which gives the locks in its header
-- states.
function handoff.held(q)
  local _, _, _, fence, deadline = unpack(context.handover.reply)
  if deadline + 0 <= context.now then return false end
  local text = redis.call("HGET", q.states, context.handover.id)
  local state = text and message_state.parse(text)
  return state and message_state.is_reader_lock(state) and state.owner == ARGV[1] and state.fence == fence
end

-- Returns the reply for a reader that asks for the lock, with the present time. Its slot keeps the reply of this call from
-- now on.
function handoff.confirm(q)
  local _, _, _, fence, deadline = unpack(context.handover.reply)
  local id, reply = context.handover.id, message.found(fence, deadline, {})
  reply[2], reply[3] = context.incarnation, context.history
  redis.call("HSET", KEYS[1], ARGV[1], context.format_reply(ARGV[2], id, reply))
  message.add_entries(q, reply, position.read(q, { id }), "")
  return reply
end

-- Gives the lock back for a reader that gives up. No delivery is counted, since the reader never saw the message. Where the
-- release takes queues that the script does not have, the lock stays until its lease ends.
function handoff.back(q)
  local entries = position.read(q, { context.handover.id })
  if not release.plan(q, entries) then return end
  entries[1].state.deliveries = 0 -- it was handed over as it arrived, so it had none before
  release.unlock(q, entries)
  store.save(q)
end
