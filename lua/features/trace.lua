--- require "core/context"
--- require lazy "core/record"
--- require lazy "core/queue"
--- require lazy "features/other_queues"
--- require lazy "features/copy"
--- used by admin/redrive, core/position, core/release, features/delivery_delay, features/features and others
-- What a message leaves behind: journal copies, dead letters and acknowledgements (docs/semantics.md).
-- Classes are those of MQMQ 2.2.18.1.6.
local trace = {}
trace.class = {
  receive_timeout = 0xC002, queue_purged = 0xC001, queue_deleted = 0xC000, receive_rejected = 0xC004, poison = 0xC004,
  reach_queue_timeout = 0x8002, queue_exceed_quota = 0x8003, not_transactional_queue = 0x8009,
  not_transactional_message = 0x800A,
}

-- The traces of one departure for `reason`: {name of the queue, "copy" or "ack", class, can the queue be created}.
function trace.of(q, e, reason)
  local found, rec, class = {}, e.rec, trace.class[reason]
  if not class and reason ~= "receive" then return found end
  local function add(name, kind, number, make) found[#found + 1] = { name, kind, number, make } end
  if reason == "receive" and q.options.journaling then
    add((string.match(queue.name(q), "^(.-)%%3B") or queue.name(q)) .. "%3Bjournal", "copy", 0, true)
  end
  local wants = tonumber(record.field(rec, "acknowledge") or 0)
  local source = tonumber(record.field(rec, "journal") or 0)
  local asked = class and math.floor(wants / (class < 0xC000 and 4 or 8)) or math.floor(wants / 2)
  local to = record.field(rec, "administration_queue")
  if to and asked % 2 == 1 then add(other_queues.encode(to), "ack", class or 0x4000) end
  local own = record.field(rec, "transaction_id")
  if not class then
    if own and source >= 2 then add("system%24%3Bjournal", "copy", 0, true) end
  elseif reason == "poison" or (source % 2 == 1 and trace.dead(reason, own)) then
    local letters, make = trace.letters(e)
    add(letters, "copy", class, make)
  end
  return found
end

-- The queue that a dead letter of this entry goes to, and whether the broker creates it: the retry policy's (e.letters), the
-- one that the sender named, or that of the system.
function trace.letters(e)
  if e.letters then return e.letters end
  local named = record.field(e.rec, "dead_letter_queue")
  if named then return other_queues.encode(named) end
  return record.field(e.rec, "transaction_id") and "system%24%3Bdeadxact" or "system%24%3Bdeadletter", true
end

-- Does this reason make a dead letter? Of a message sent in a transaction every failure does; purge and deletion do
-- not for the others.
function trace.dead(reason, own)
  if reason == "not_transactional_queue" or reason == "not_transactional_message" then return false end
  return own or (reason ~= "queue_purged" and reason ~= "queue_deleted")
end

-- Decide: are all the queues at hand that departures for `reason` write to?
function trace.plan(q, entries, reason)
  other_queues.load()
  for n = 1, #entries do
    local found = trace.of(q, entries[n], reason)
    for k = 1, #found do other_queues.find(found[k][1], found[k][4]) end
  end
end

-- Apply: write them. Where a queue is gone, full or of the wrong kind the copy is discarded, the departure goes on.
function trace.leave(q, entries, reason)
  for n = 1, #entries do
    local found = trace.of(q, entries[n], reason)
    for k = 1, #found do
      other_queues.load()
      copy.load()
      local to = other_queues.find(found[k][1], found[k][4])
      if to and to.options.topic then to = nil end -- a topic keeps nothing
      if to and found[k][2] == "ack" then
        copy.acknowledge(q, to, entries[n], found[k][3])
      elseif to then
        copy.put(q, to, entries[n], found[k][3], reason)
      end
    end
  end
end

-- Decide and apply for messages that have just been accepted: {positive arrival, positive source journaling}.
function trace.accepted(q, entries, apply)
  other_queues.load()
  copy.load()
  for n = 1, #entries do
    local rec = entries[n].rec
    local to = record.is_special(rec) and record.field(rec, "administration_queue")
    if to and tonumber(record.field(rec, "acknowledge") or 0) % 2 == 1 then
      local target = other_queues.find(other_queues.encode(to))
      if apply and target and not target.options.topic then copy.acknowledge(q, target, entries[n], 0x0002) end
    end
    local journal = record.is_special(rec) and record.field(rec, "journal") or 0
    if tonumber(journal) >= 2 and not record.field(rec, "transaction_id") then
      local target = other_queues.find("system%24%3Bjournal", true)
      if apply and target then copy.put(q, target, entries[n], 0, "sent") end
    end
  end
end

-- Decide: those that have expired leave as soon as they would become available.
function trace.expiring(q, entries)
  local gone = {}
  for n = 1, #entries do
    if record.is_expired(entries[n].rec, context.now) then gone[#gone + 1] = entries[n] end
  end
  trace.plan(q, gone, "receive_timeout")
end
