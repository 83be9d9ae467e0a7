--- require "core/chunked"
--- require "core/context"
--- require "core/queue"
--- used by begin, commit, core/enqueue, core/lapse, core/session, features/topic, lock_list, lookup, manager_info, move, publish,
---   queue_close, receive, reject, renew, send, transactions/tx_parts, tx_abort, tx_list, tx_sweep
-- The log of open transactions (MS-MQDMPR 3.1.1.13, 3.1.1.14): the hash `txs` (KEYS[2]), which no other module
-- writes; scripts that go through all transactions (tx_list, tx_sweep and others) read it and have this module parse the texts.
-- Every script that sends, receives or moves in a transaction, or ends one, requires this module. It calls, in this order:
--
--   to add operations       tx.open or tx.enter, context.mark_changed, tx.add. The fence of a new transaction is the history
--                           number that context.mark_changed gives to this call afterwards
--   to end the transaction  tx.read; transactions/tx_parts and transactions/commit for its messages; tx.forget
--
-- Two texts are stored, each written and read by one pair of functions here (the doctor reads them with
-- mqredis/codec/transactions.py):
--
--   field "<id>"      "<deadline ms> <fence> <number of operations> <session> <since ms>"
--                     example: 1764000030000 4711 2 12 1764000000000
--   field "<id>:<k>"  the k-th operation: "<kind> <queue> <lookup id>", then " <target>" of a move, or "  <reason>" of a
--                     rejection if the application gave one. Queue names are encoded as in keys.
--                     kind: S sent, R received, X received and rejected, M moved to the target
--                     examples: S orders 000000000000002a     X orders 000000000000002b  no such customer
--
-- The messages of a transaction are locked with its id as owner and its fence, so each queue can undo its own part
-- without the log (core/lapse). A transaction whose deadline has passed has ended, whether its fields are still there or not.
-- In all files a transaction is a table with these fields:
--
--   id, deadline, fence, session, since   texts, as in the record
--   count       number of operations
--   is_open     true if its deadline is still to come; tx.new leaves it out
--   stale       number of operations that an ended transaction with this id has left behind; 0 if none
--   operations  by number, the texts of the operations, false for one that is missing; nil unless tx.read has read them
--
-- Change together with: mqredis/codec/transactions.py, for another part of a text (tests/contract/test_stored_texts.py). Another
-- kind of operation needs a case in tx_parts.add_entry, in commit.apply_entries and commit.abort, a kind of states
-- (core/message_state) that core/lapse undoes, and a word in _OPERATIONS of mqredis/commands/inspection.py.
-- Tests: tests/conformance/test_transaction.py, tests/client/test_transaction.py.
--
-- sent, received, rejected, moved   the kinds of operations
-- most    operations that a transaction may have; the scripts refuse more
local tx = { most = 1000, sent = "S", received = "R", rejected = "X", moved = "M" }

-- The stored texts ------------------------------------------------------------------------------------------------------

-- Returns the text of a transaction's record. All arguments are texts.
function tx.format(deadline, fence, count, session, since)
  return deadline .. " " .. fence .. " " .. count .. " " .. session .. " " .. since
end

-- Returns deadline, fence, number of operations, session and beginning, as texts; nil if the text is not the record of a
-- transaction, as an operation is not.
function tx.parse(text)
  return string.match(text, "^(%d+) (%d+) (%d+) (%S+) (%d+)$")
end

-- Returns what comes in front of the lookup id in the text of an operation, so that it is put together once for many ids. `name`:
-- of the queue, encoded.
function tx.format_operation(kind, name)
  return kind .. " " .. name .. " "
end

-- Returns kind, encoded name of the queue and lookup id of an operation. Nearly all are sends and receives, which end with the
-- id.
function tx.parse_operation(text)
  local kind = string.sub(text, 1, 1)
  if kind == tx.sent or kind == tx.received then return kind, string.sub(text, 3, -18), string.sub(text, -16) end
  local name, id = string.match(text, "^%S (%S+) (%x+)")
  return kind, name, id
end

-- Returns the encoded name of the queue that a move goes to; "" for an operation of another kind.
function tx.target(text)
  return string.match(text, "^M %S+ %x+ (%S+)$") or ""
end

-- Returns the reason of a rejection; nil if none was given.
function tx.reason(text)
  return string.match(text, "^X %S+ %x+  (.+)$")
end

-- Open transactions -----------------------------------------------------------------------------------------------------

-- Returns the transaction with this record as a table; nil if the text (or false) is no record.
function tx.from_text(id, text)
  local deadline, fence, count, session_number, since = tx.parse(text or "")
  if not deadline then return end
  return { id = id, deadline = deadline, fence = fence, count = count + 0, session = session_number, since = since,
    stale = 0, is_open = deadline + 0 > context.now }
end

-- Returns the transaction with this id, open or ended; nil if nothing is stored of it.
function tx.find(id)
  return tx.from_text(id, redis.call("HGET", KEYS[2], id))
end

-- Returns an open transaction for a script that adds an operation. `fence`: of a transaction that was begun before, or
-- "+<lease in ms>" to begin one, unless another call of the same session has begun it meanwhile: several tasks of a client may make
-- their first calls in it together. Returns nil if none is open under this fence, or if one of another session is open that was to
-- begin: the script ends with TRANSACTION_SEQUENCE then.
function tx.open(id, fence)
  local transaction = tx.find(id)
  local is_open = transaction ~= nil and transaction.is_open
  local begins = string.sub(fence, 1, 1) == "+"
  if not begins then return is_open and transaction.fence == fence and transaction or nil end
  if is_open then return transaction.session == context.owner() and transaction or nil end
  local lease, stale = fence + 0, transaction and transaction.count or 0 -- "+30000" is read as a number
  return tx.new(id, lease, stale)
end

-- Returns the transaction in which a script takes or moves messages of q, with room for one operation at least; or nil and the
-- status that refuses this. `id`, `fence`: as of tx.open.
function tx.enter(q, id, fence)
  if not q.options.transactional then return nil, status.TRANSACTION_USAGE end
  local transaction = tx.open(id, fence)
  if not transaction then return nil, status.TRANSACTION_SEQUENCE end
  if transaction.count >= tx.most then return nil, status.TRANSACTION_TOO_LARGE end
  return transaction
end

-- Returns a new transaction with a lease in ms, which tx.save or tx.add write. Its fence is unique only together with its id.
function tx.new(id, lease, stale)
  local deadline, fence = string.format("%d", context.now + lease), string.format("%d", context.history + 1)
  return { id = id, deadline = deadline, fence = fence, count = 0, session = context.owner(), since = context.now_text,
    stale = stale }
end

-- Returns the lock (position.lock) of messages that the transaction holds. `kind`: of their states (core/message_state).
function tx.lock(transaction, kind)
  return { kind = kind, owner = transaction.id, fence = transaction.fence, deadline = transaction.deadline }
end

-- Writes the record of the transaction, and with it more fields of the log: `...`, name, value, name, value. Removes what an ended
-- transaction with the same id has left.
function tx.save(transaction, ...)
  for k = transaction.count + 1, transaction.stale do redis.call("HDEL", KEYS[2], transaction.id .. ":" .. k) end
  transaction.stale = 0
  local count = string.format("%d", transaction.count)
  redis.call("HSET", KEYS[2], transaction.id,
    tx.format(transaction.deadline, transaction.fence, count, transaction.session, transaction.since), ...)
end

-- Appends an operation of this kind for each of these ids. The caller has checked that there is room (tx.most). `target`: the
-- encoded name of the queue that a move goes to, else nil.
function tx.add(transaction, q, kind, ids, target)
  local head, tail = tx.format_operation(kind, queue.name(q)), target and " " .. target or ""
  local stem, count = transaction.id .. ":", transaction.count
  transaction.count = count + #ids
  if #ids == 1 then -- most calls add one
    return tx.save(transaction, stem .. string.format("%d", transaction.count), head .. ids[1] .. tail)
  end
  local fields = { nil, nil } -- name, text, name, text, ...
  for n = 1, #ids do
    fields[n * 2 - 1], fields[n * 2] = stem .. string.format("%d", count + n), head .. ids[n] .. tail
  end
  tx.save(transaction, unpack(fields))
end

-- The whole log of a transaction ----------------------------------------------------------------------------------------

-- Returns the names of a transaction's fields: its record first, then each of its `count` operations.
function tx.fields(id, count)
  local fields, stem = { id }, id .. ":"
  for k = 1, count do fields[k + 1] = stem .. string.format("%d", k) end
  return fields
end

-- Returns the texts of the record of a transaction and of its first `most` operations.
function tx.read_some(id, most)
  return chunked.read(KEYS[2], tx.fields(id, most))
end

-- Returns the transaction with this id, open or ended, with its operations; nil if nothing is stored of it. Most have two
-- operations, which are read together with the record.
function tx.read(id)
  local texts = redis.call("HMGET", KEYS[2], id, id .. ":1", id .. ":2")
  local transaction = tx.from_text(id, texts[1])
  if not transaction then return end
  transaction.operations = { texts[2], texts[3] }
  if transaction.count > 2 then -- all are read again, with the record, which comes first
    transaction.operations = tx.read_some(id, transaction.count)
    table.remove(transaction.operations, 1)
  end
  return transaction
end

-- Rewrites the operation of a message that was received from the queue `name` (encoded) as one of a rejected message.
-- `transaction`: as tx.read returns it; `reason`: "" for none.
function tx.reject(transaction, name, id, reason)
  local rejected = tx.format_operation(tx.rejected, name) .. id .. (reason ~= "" and "  " .. reason or "")
  for k = 1, transaction.count do
    local _, own_name, own_id = tx.parse_operation(transaction.operations[k] or "")
    if own_id == id and own_name == name then redis.call("HSET", KEYS[2], transaction.id .. ":" .. k, rejected) end
  end
end

-- Removes all fields of a transaction.
function tx.forget(transaction)
  context.mark_changed()
  local id, count = transaction.id, transaction.count
  if count == 2 then return redis.call("HDEL", KEYS[2], id, id .. ":1", id .. ":2") end
  chunked.run("HDEL", KEYS[2], tx.fields(id, count))
end

-- Many transactions -----------------------------------------------------------------------------------------------------

-- Returns the transactions among these fields of the log (name, value, ..., as HGETALL and HSCAN return them) that are open, or
-- with false those that have ended.
function tx.list(fields, is_open)
  local found = { nil }
  for n = 1, #fields, 2 do
    local transaction = tx.from_text(fields[n], fields[n + 1])
    if transaction and transaction.is_open == is_open then found[#found + 1] = transaction end
  end
  return found
end

-- Forgets the transactions whose lease is over among some `count` fields of the log, in a scan that goes on from `cursor`. Returns
-- the cursor of the next call, "0" at the end. A scan comes by every field that is there from its first call to its last one,
-- whatever is added and removed meanwhile; a server that was restarted has another order of fields, so the scan may miss some then,
-- which the next one finds. Each queue gives its messages back by itself (core/lapse), and ends their transaction as well: this is
-- for those that hold no message, since their id was chosen and never used, or their queues were deleted.
function tx.sweep(cursor, count)
  local page = redis.call("HSCAN", KEYS[2], cursor, "COUNT", count)
  local ended = tx.list(page[2], false)
  for n = 1, #ended do tx.forget(ended[n]) end
  return page[1]
end

-- Does a transaction that is stored, open or not, move a message to the queue with this encoded name?
function tx.moves_to(name)
  local fields = redis.call("HGETALL", KEYS[2])
  for n = 2, #fields, 2 do
    if tx.target(fields[n]) == name then return true end
  end
  return false
end

