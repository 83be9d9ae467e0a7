--- require "core/context"
--- require lazy "core/record"
--- require lazy "core/queue"
--- require lazy "features/other_queues"
--- require lazy "features/copy"
--- used by admin/redrive, core/release, core/removal, features/delivery_delay, features/features, features/refusal, features/retry,
---   features/retry_policy, features/topic, transactions/commit, transactions/tx_parts
-- What a message leaves behind in other queues when it arrives in its queue, or departs from it: an acknowledgement for
-- its sender, a copy in a journal, a dead letter (docs/semantics.md). features/copy makes the copies.
--
-- Which of them, say the fields acknowledge, administration_queue, journal and dead_letter_queue of its head, the
-- option `journaling` of its queue, and the reason of a departure: one of core/removal, which says what a new one takes, or of
-- features/refusal for messages that never arrived.
--
--   what happens                     before the first write    afterwards
--   a queue accepts messages         trace.plan_accepted       trace.accepted
--   messages depart for a reason     trace.plan                trace.leave
--   messages may be found expired    trace.expiring            trace.leave, by core/removal
--
-- Change together with: the bits and classes are those of mqredis/models/enums.py (tests/contract/test_constants.py compares);
-- a field that asks for a trace is among features.traced (features/features), copy.requests (features/copy), and TRACED in
-- mqredis/models/fields.py. tests/model/traces.py is the model that tests compare the broker with. Tests: tests/msmq/test_traces.py
-- and test_removals.py.
--
-- The plans ask for the other queues (context.missing) and write nothing. Where a queue is gone, full or of the wrong kind (a
-- topic; for acknowledgements also one that is transactional or closed for sending), nothing is written there, and the message
-- arrives or departs all the same. In this module a trace is a table:
--
--   queue         encoded name of the queue that it goes to
--   acknowledges  true: an acknowledgement; false: a copy
--   class         of the message that is written; nil for a journal copy, which keeps its own
--   may_create    the client may create the queue
local trace = {}

-- Bits of the field acknowledge.
trace.bits = { reached = 1, received = 2, not_reached = 4, not_received = 8, pass_correlation_id = 64,
  pass_message_id = 128 }

-- Classes of messages (MQMQ 2.2.18.1.6): of positive acknowledgements; and by reason those of negative ones, which dead
-- letters have, too. From 0x8000 on they are negative; from 0xC000 on the message had reached its queue.
trace.positive = { reached = 0x0002, received = 0x4000 }
trace.class = {
  receive_timeout = 0xC002, queue_purged = 0xC001, queue_deleted = 0xC000, receive_rejected = 0xC004, poison = 0xC004,
  reach_queue_timeout = 0x8002, queue_exceed_quota = 0x8003, not_transactional_queue = 0x8009,
  not_transactional_message = 0x800A,
}

-- Which traces ----------------------------------------------------------------------------------------------------------

-- Does the message ask for this (trace.bits)?
function trace.asks(rec, bit)
  return math.floor(tonumber(record.field(rec, "acknowledge") or 0) / bit) % 2 == 1
end

-- Appends a trace to a list, which is made if it is nil. Returns the list. The arguments are the fields of a trace.
function trace.append(found, name, acknowledges, class, may_create)
  found = found or {}
  found[#found + 1] = { queue = name, acknowledges = acknowledges, class = class, may_create = may_create }
  return found
end

-- Returns the encoded name of the queue that q is, or is a subqueue of.
function trace.home(q)
  local home = queue.split_name(queue.name(q))
  return home
end

-- Appends a copy in the journal with this encoded name.
function trace.append_journal(found, name)
  return trace.append(found, name, false, nil, true)
end

-- Appends the acknowledgement of this class, if the message asks for it.
function trace.append_acknowledgement(found, rec, bit, class)
  local to = record.field(rec, "administration_queue")
  if not to or not trace.asks(rec, bit) then return found end
  return trace.append(found, other_queues.encode(to), true, class)
end

-- Returns the traces of an entry that leaves q for this reason; nil if there are none.
function trace.of_departure(q, entry, reason)
  local rec, class, bits, found = entry.rec, trace.class[reason], trace.bits, nil
  -- journal: a sum, 1 if the sender wants a dead letter, 2 if it wants a copy in the system's journal.
  local journal, transaction = tonumber(record.field(rec, "journal") or 0), record.field(rec, "transaction_id")
  if reason == "receive" then
    if q.options.journaling then
      found = trace.append_journal(found, queue.join_name(trace.home(q), "journal"))
    end
    found = trace.append_acknowledgement(found, rec, bits.received, trace.positive.received)
    if transaction and journal >= 2 then found = trace.append_journal(found, other_queues.system.journal) end
  elseif class then
    found = trace.append_acknowledgement(found, rec, class < 0xC000 and bits.not_reached or bits.not_received, class)
    if reason == "poison" or journal % 2 == 1 and trace.makes_dead_letter(reason, transaction) then
      local name, may_create = trace.dead_letter_queue(entry)
      found = trace.append(found, name, false, class, may_create)
    end
  end
  return found
end

-- Returns the traces of an entry that a queue accepts; nil if there are none. Of a message that is sent in a
-- transaction, the copy in the system's journal is made when it is received.
function trace.of_arrival(entry)
  local rec = entry.rec
  if not record.is_special(rec) then return end
  local found = trace.append_acknowledgement(nil, rec, trace.bits.reached, trace.positive.reached)
  if tonumber(record.field(rec, "journal") or 0) >= 2 and not record.field(rec, "transaction_id") then
    found = trace.append_journal(found, other_queues.system.journal)
  end
  return found
end

-- Returns the encoded name of the queue for the dead letter of an entry, and whether the client may create it. The
-- retry policy's queue (entry.dead_letter_queue) comes before that of the sender, and this before that of the system.
function trace.dead_letter_queue(entry)
  if entry.dead_letter_queue then return entry.dead_letter_queue end
  local named = record.field(entry.rec, "dead_letter_queue")
  if named then return other_queues.encode(named) end
  local system = other_queues.system
  return record.field(entry.rec, "transaction_id") and system.transactional_dead_letter or system.dead_letter, true
end

-- Does a departure for this reason make a dead letter? Purges and deletions do for messages sent in a transaction only.
function trace.makes_dead_letter(reason, transaction)
  if reason == "not_transactional_queue" or reason == "not_transactional_message" then return false end
  return transaction or (reason ~= "queue_purged" and reason ~= "queue_deleted")
end

-- Decide and apply ------------------------------------------------------------------------------------------------------

-- Asks for the queues of these traces (context.missing). `list`: of trace.of_departure or trace.of_arrival, nil if there are none.
function trace.find_queues(list)
  for n = 1, #(list or "") do other_queues.find(list[n].queue, list[n].may_create) end
end

-- Writes these traces of an entry of q. `list`: as of trace.find_queues; `reason`: why it leaves, or "sent".
function trace.write(q, entry, list, reason)
  if not list then return end
  for n = 1, #list do
    local to = other_queues.find(list[n].queue, list[n].may_create)
    if to and to.options.topic then to = nil end -- a topic keeps nothing
    if to and list[n].acknowledges then
      trace.acknowledge(q, to, entry, list[n].class)
    elseif to then
      copy.put(q, to, entry, list[n].class, reason)
    end
  end
end

-- Plans the traces of entries that are to leave q for this reason.
function trace.plan(q, entries, reason)
  for n = 1, #entries do trace.find_queues(trace.of_departure(q, entries[n], reason)) end
end

-- Writes the traces of entries that leave q for this reason.
function trace.leave(q, entries, reason)
  for n = 1, #entries do trace.write(q, entries[n], trace.of_departure(q, entries[n], reason), reason) end
end

-- Plans the traces of entries that are to be accepted.
function trace.plan_accepted(entries)
  for n = 1, #entries do trace.find_queues(trace.of_arrival(entries[n])) end
end

-- Writes the traces of entries that q has accepted.
function trace.accepted(q, entries)
  for n = 1, #entries do trace.write(q, entries[n], trace.of_arrival(entries[n]), "sent") end
end

-- Plans for those of these entries that have expired: they leave q as soon as they would become available.
function trace.expiring(q, entries)
  local gone = {}
  for n = 1, #entries do
    if record.is_expired(entries[n].rec, context.now) then gone[#gone + 1] = entries[n] end
  end
  trace.plan(q, gone, "receive_timeout")
end

-- Puts an acknowledgement of this class about an entry of q into `to`, if the quota of `to` admits it (MS-MQDMPR
-- 3.1.7.2.1). A negative one carries the body.
function trace.acknowledge(q, to, entry, class)
  if to.options.transactional or to.options.put_inhibited then return end
  local fields, id = record.fields, copy.identity(entry)
  local head = fields.message_class .. class .. fields.response_queue .. other_queues.decode(trace.home(q))
  if id and trace.asks(entry.rec, trace.bits.pass_message_id) then head = head .. fields.message_id .. id end
  if trace.asks(entry.rec, trace.bits.pass_correlation_id) then id = record.field(entry.rec, "correlation_id") end
  if id then head = head .. fields.correlation_id .. id end
  if record.field(entry.rec, "recoverable") then head = head .. fields.recoverable .. "0" end
  local flag, body, large = record.bits.special, "\0", ""
  if class >= 0x8000 then
    if entry.why then head = head .. fields.reason .. entry.why end
    local kind = record.field(entry.rec, "content_type")
    if kind then head = head .. fields.content_type .. kind end
    if record.has_large_body(entry.rec) then
      flag, large = flag + record.bits.large, entry.large or redis.call("HGET", q.records, "^" .. entry.id) or ""
    else
      body = select(2, record.split(entry.rec))
    end
  end
  copy.insert_if_room(q, to, flag, head, body, large)
end
