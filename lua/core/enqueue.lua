--- require "core/context"
--- require lazy "core/message_state"
--- require lazy "core/position"
--- require "core/queue"
--- require lazy "core/record"
--- require "core/store"
--- require lazy "features/features"
--- require lazy "features/trail"
--- require lazy "transactions/tx"
--- used by admin/schedules, claims/publish, features/copy, features/topic, publish, send
-- Puts messages into a queue (MS-MQDMPR 3.1.7.1.9 Enqueue Message): reads them from ARGV, gives them their lookup ids, and
-- stores them. The callers check quotas and rights.
--
-- A batch holds the messages of one queue as columns, by place:
--   records  their records; larges: large bodies, or nil if there are none
--   asking   a batch of features with those that ask for something (features.batch), or nil if none does
--   special  is one of them special or named (core/record)?
--   bytes    size of all
--
-- Change together with: a new column stands in enqueue.new_batch, and is filled by enqueue.append and, for plain messages, by
-- enqueue.parse. What these read is written by mqredis/codec/encode.py (the flag: core/record); refusal.trace (features/refusal)
-- reads the same arguments again, and publish.read (claims/publish) the same elements from a list. Messages that users do not send
-- come in through features/copy (which takes only the ids from here) and core/transfer. Tests: tests/conformance/test_send.py; a
-- plain send is limited in lines and commands by tests/contract/test_send_path.py and test_cost.py.
--
-- digits: the last digit of an id; to format a number costs more
local enqueue = { digits = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f" } }

-- Reads the messages of ARGV from place `at` on: flag digit, head, NUL, body; behind one with the flag large its body. Returns
-- a batch; or nil and the status that refuses the send.
function enqueue.parse(q, at)
  local records, byte, stamp, most, bytes, count = { nil }, string.byte, context.now_text, q.max_bytes, 0, 0
  local batch, last, queue_asks = enqueue.new_batch(records), #ARGV, q.options.trail or enqueue.makes_special(q)
  local flag_at = record.flag_at
  while at <= last do
    local rec = stamp .. ARGV[at]
    local flag, size = byte(rec, flag_at), #rec
    if not queue_asks and (flag == record.plain or flag == record.named) then
      if size > most then return nil, status.MESSAGE_TOO_LARGE end
      count, bytes = count + 1, bytes + size
      records[count] = rec
      if flag == record.named then batch.special = true end
    else
      local large
      if record.has_large_body(rec) then
        at = at + 1
        large = ARGV[at]
        size = size + #large
      end
      if size > most then return nil, status.MESSAGE_TOO_LARGE end
      enqueue.append(batch, rec, large, q)
      count = count + 1
      local wants = batch.asking and batch.asking.wants[count]
      if wants and wants.late and enqueue.is_late(rec) then return nil, status.ENQUEUE_TIMED_OUT end
    end
    at = at + 1
  end
  batch.bytes = batch.bytes + bytes
  return batch
end

-- Is each message of this queue special, whatever its own head asks for? In a queue that locks groups the features `identifiers`
-- and `group_lock` have to see every message (`option` in features/features). What users send comes through enqueue.append,
-- which makes it so; what the broker puts into a queue is special in any case (copy.flag). Others rely on it, and look at the
-- option as well: claims/publish takes shorter steps, and transactions/tx_parts reads the records. Modules that ask whether groups
-- take turns look at q.locks_groups, which subqueues do not have (core/queue).
function enqueue.makes_special(q)
  return q.options.group_exclusive
end

-- Has the message travelled longer than its sender allows?
function enqueue.is_late(rec)
  return tonumber(record.field(rec, "sent_ms_before") or 0) > tonumber(record.field(rec, "time_to_reach_queue"))
end

-- Returns `count` new lookup ids: two digits for 7 less the priority, "00" in a transaction, then 14 digits of the manager's
-- SequentialID; example: "040000000000002a". So the order of ids is that of delivery. `priorities`: a digit for each message.
--
-- Change together with: who takes the first two digits of an id for its priority, or the others for its SequentialID
-- (rewrite.id in admin/rewrite, core/oldest, stats.lua, features/group_lock, features/trail), mqredis/models/lookup_ids.py, and
-- the check `records` of mqredis/operations/doctor/checks/messages.py.
function enqueue.ids(priorities, count, transactional)
  local ids, last, digits, byte = { nil }, context.seq, enqueue.digits, string.byte
  local stem, stem_priority -- all but the last digit, which is the same for most of a batch
  for n = 1, count do
    local low, priority = (last + n) % 16, transactional and 55 or byte(priorities, n) -- 55 is "7"
    if low == 0 or priority ~= stem_priority then
      stem = string.format("0%d%013x", 55 - priority, (last + n - low) / 16)
      stem_priority = priority
    end
    ids[n] = stem .. digits[low + 1]
  end
  context.seq = last + count
  return ids
end

-- Stores the messages of a batch: available, or locked by `transaction`, in which they are sent. If batch.asking is there,
-- the caller has called features.plan before; features/topic has planned itself what the copies for its subscribers leave behind.
function enqueue.put(q, ids, batch, transaction)
  store.add(q, ids, batch.records, batch.larges, batch.bytes)
  if batch.special then
    q.has_special = true
    if batch.asking then features.accept(q, batch.asking, ids, transaction ~= nil) end
  end
  if transaction then return enqueue.hold(q, ids, batch, transaction) end
  -- Messages that ask for something have hooks that are called as they arrive. Those that are only named need their member in
  -- the index of identifiers, which reaches up to q.indexed; most queues were never searched for an identifier.
  if batch.asking or batch.special and q.indexed ~= queue.never then
    return position.arrive(q, ids, batch.records, batch.asking)
  end
  store.make_available(q, ids)
end

-- Locks messages for the transaction that sends them; its commit makes them available.
function enqueue.hold(q, ids, batch, transaction)
  local states, larges = { nil, nil }, batch.larges
  for n = 1, #ids do
    local rec, large = batch.records[n], larges and larges[n]
    local size, is_free = large and #rec + #large or #rec, record.free[string.byte(rec, record.flag_at)]
    local kind = is_free and message_state.plain_send or message_state.sent
    states[n * 2 - 1], states[n * 2] = ids[n], message_state.first(size, kind, transaction.id, transaction.fence)
  end
  store.lock(q, ids, states, transaction.deadline)
  tx.add(transaction, q, tx.sent, ids)
end

-- Returns a batch with no messages. `records`: an empty list.
function enqueue.new_batch(records)
  return { records = records, larges = nil, bytes = 0, special = false, asking = nil }
end

-- Adds a message for queue q to a batch. `large`: its body if that is large, else nil. A queue with trails marks a share of its
-- messages, unless they have a trail already.
function enqueue.append(batch, rec, large, q)
  local place, options = #batch.records + 1, q.options
  if options.trail and not record.field(rec, "trail") then
    if trail.picks(trail.share(q), place) then rec = trail.mark(rec) end
  end
  if enqueue.makes_special(q) then rec = record.set_flag(rec, record.bits.special) end
  batch.records[place] = rec
  batch.bytes = batch.bytes + #rec
  if large then
    batch.bytes = batch.bytes + #large
    batch.larges = batch.larges or {}
    batch.larges[place] = large
  end
  local is_free = record.free[string.byte(rec, record.flag_at)] -- true, "named" or nil (core/record)
  if is_free == "named" then
    batch.special = true
  elseif not is_free and record.is_special(rec) then
    batch.special, batch.asking = true, batch.asking or features.batch(nil, batch.records)
    features.note(batch.asking, place)
  end
end
