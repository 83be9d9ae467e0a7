--- require "core/context"
--- require "core/queue"
--- used by begin, commit, core/enqueue, core/lapse, core/session, features/topic, lock_list, lookup and others
-- The log of open transactions (MS-MQDMPR 3.1.1.13, 3.1.1.14): the hash `txs` (KEYS[2]), which no other module reads or
-- writes. Every script that sends, receives or moves in a transaction, or ends one, requires this module.
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
-- The messages of a transaction are Locked with its id as owner and its fence, so each queue can undo its own part
-- without the log (core/lapse). A transaction whose deadline has passed counts as ended, whether its fields are still
-- there or not. In this module `transaction` is a table {id, deadline, fence, count, session, since, stale}: `count` is the
-- number of operations; `since` is when it began, in ms; `stale` is how many fields an ended transaction with this id has
-- left behind, nil if none.
--
-- sent, received, rejected, moved: the kinds of operations. most: operations of a transaction. chunk: fields that one command
-- reads or removes, well below what unpack can return.
local tx = { most = 1000, chunk = 500, sent = "S", received = "R", rejected = "X", moved = "M" }

-- The stored texts ------------------------------------------------------------------------------------------------------

-- Returns the text of a transaction's record.
function tx.format(deadline, fence, count, session, since)
  return deadline .. " " .. fence .. " " .. count .. " " .. session .. " " .. since
end

-- Returns deadline, fence, number of operations, session and beginning, as texts; nil if the text is not the record of a
-- transaction, as an operation is not.
function tx.parse(text)
  return string.match(text, "^(%d+) (%d+) (%d+) (%S+) (%d+)$")
end

-- Returns what comes in front of the lookup id in the text of an operation, so that it is put together once for many ids.
function tx.format_operation(kind, name)
  return kind .. " " .. name .. " "
end

-- Returns kind, encoded name of the queue and lookup id of an operation. Nearly all are sends and receives, which end with the
-- id.
function tx.parse_operation(text)
  local kind = string.sub(text, 1, 1)
  if kind == tx.sent or kind == tx.received then return kind, string.sub(text, 3, -18), string.sub(text, -16) end
  local name, lid = string.match(text, "^%S (%S+) (%x+)")
  return kind, name, lid
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

-- Returns the transaction as a table; or nil and TRANSACTION_SEQUENCE if none with this id is open under this fence. `grant`:
-- the fence; or "+<lease in ms>", which begins a transaction, to be written by tx.save or tx.add. Its fence is unique only
-- together with its id.
function tx.open(id, grant)
  local text = redis.call("HGET", KEYS[2], id)
  local deadline, fence, count, session, since
  if text then deadline, fence, count, session, since = tx.parse(text) end
  local open = deadline and deadline + 0 > context.now
  if string.sub(grant, 1, 1) == "+" then
    if open then return nil, status.TRANSACTION_SEQUENCE end
    local until_ms, next_fence = string.format("%d", context.now + grant), string.format("%d", context.history + 1)
    return { id = id, deadline = until_ms, fence = next_fence, count = 0, session = context.owner(),
      since = context.now_text, stale = count and count + 0 or nil }
  end
  if not open or fence ~= grant then return nil, status.TRANSACTION_SEQUENCE end
  return { id = id, deadline = deadline, fence = fence, count = count + 0, session = session, since = since,
    stale = nil }
end

-- Writes the record of the transaction, and with it more fields of the log, given as pairs of name and value. Removes what an
-- ended transaction with the same id has left.
function tx.save(transaction, ...)
  if transaction.stale then
    for k = transaction.count + 1, transaction.stale do redis.call("HDEL", KEYS[2], transaction.id .. ":" .. k) end
    transaction.stale = nil
  end
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
  if #ids == 1 then
    return tx.save(transaction, stem .. string.format("%d", transaction.count), head .. ids[1] .. tail)
  end
  local fields = { nil, nil }
  for n = 1, #ids do
    fields[n * 2 - 1], fields[n * 2] = stem .. string.format("%d", count + n), head .. ids[n] .. tail
  end
  tx.save(transaction, unpack(fields))
end

-- The whole log of a transaction ----------------------------------------------------------------------------------------

-- Returns the names of a transaction's fields: its record, then each of its `count` operations.
function tx.fields(id, count)
  local fields, stem = { id }, id .. ":"
  for k = 1, count do fields[k + 1] = stem .. string.format("%d", k) end
  return fields
end

-- Returns what is stored of a transaction: a list of the texts of its record and of each operation, false for one that is
-- missing; then the number of operations, the deadline and the fence. nil if there is no such transaction. Most have two
-- operations, which are read together with the record.
function tx.read(id)
  local texts = redis.call("HMGET", KEYS[2], id, id .. ":1", id .. ":2")
  local deadline, fence, count = tx.parse(texts[1] or "")
  if not deadline then return end
  count = count + 0
  local fields = count > 2 and tx.fields(id, count)
  for from = 4, count + 1, tx.chunk do
    local more = redis.call("HMGET", KEYS[2], unpack(fields, from, math.min(from + tx.chunk - 1, count + 1)))
    for k = 1, #more do texts[from + k - 1] = more[k] end
  end
  return texts, count, deadline, fence
end

-- Rewrites the operation of a received message as one of a rejected message. `texts` and `count` as tx.read returns them.
function tx.reject(id, texts, count, name, lid, reason)
  local rejected = tx.format_operation(tx.rejected, name) .. lid .. (reason ~= "" and "  " .. reason or "")
  for k = 2, count + 1 do
    local _, other, own = tx.parse_operation(texts[k] or "")
    if own == lid and other == name then redis.call("HSET", KEYS[2], id .. ":" .. k - 1, rejected) end
  end
end

-- Removes all fields of a transaction that has `count` operations.
function tx.forget(id, count)
  context.mark_changed()
  if count == 2 then return redis.call("HDEL", KEYS[2], id, id .. ":1", id .. ":2") end
  local fields = tx.fields(id, count)
  for from = 1, #fields, tx.chunk do
    redis.call("HDEL", KEYS[2], unpack(fields, from, math.min(from + tx.chunk - 1, #fields)))
  end
end

-- Leases ----------------------------------------------------------------------------------------------------------------

-- Returns the deadline of a transaction with this fence that is open, as text. Otherwise nil, and if its lease is over it is
-- forgotten. A transaction with this id and another fence was begun later, and stays.
function tx.lease(id, fence)
  local text = redis.call("HGET", KEYS[2], id)
  if not text then return end
  local deadline, granted, count = tx.parse(text)
  if granted ~= fence then return end
  if deadline + 0 > context.now then return deadline end
  tx.forget(id, count + 0)
end

-- Returns up to `most` of the transactions whose lease is over, as tables {id, count}, and how many of the others are open.
-- `fields`: fields of the log, as pairs of name and value.
function tx.ended(fields, most)
  local ended, open = {}, 0
  for n = 1, #fields, 2 do
    local deadline, _, count = tx.parse(fields[n + 1])
    if deadline and deadline + 0 > context.now then
      open = open + 1
    elseif deadline and #ended < most then
      ended[#ended + 1] = { id = fields[n], count = count + 0 }
    end
  end
  return ended, open
end

-- Does an open transaction move a message to the queue with this encoded name?
function tx.moves_to(name)
  local fields = redis.call("HGETALL", KEYS[2])
  for n = 2, #fields, 2 do
    if tx.target(fields[n]) == name then return true end
  end
  return false
end

-- Returns the open transactions in one page of a scan of the log, as tables {id, count, session}, and the cursor of the next
-- page.
function tx.page(cursor)
  local page, found = redis.call("HSCAN", KEYS[2], cursor, "COUNT", 256), { nil }
  local fields = page[2]
  for n = 1, #fields, 2 do
    local deadline, _, count, session = tx.parse(fields[n + 1])
    if deadline and deadline + 0 > context.now then
      found[#found + 1] = { id = fields[n], count = count + 0, session = session }
    end
  end
  return found, page[1]
end

-- Returns the texts of the record of a transaction and of its first `most` operations.
function tx.read_some(id, most)
  return redis.call("HMGET", KEYS[2], unpack(tx.fields(id, most)))
end
