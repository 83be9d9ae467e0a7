--- require "core/context"
--- require "core/chunked"
--- require "core/message_state"
--- require "core/position"
--- require "core/queue"
--- require "core/record"
--- require lazy "core/release"
--- require "core/store"
--- require lazy "core/transfer"
--- require lazy "features/trace"
--- require "transactions/touched"
--- require "transactions/tx"
--- used by commit, tx_abort
-- Commits or aborts a transaction (MS-MQDMPR 3.1.4.4, 3.1.4.5). The scripts commit.lua and tx_abort.lua call, in this order,
-- commit.group, which sorts the operations by queue; commit.plan, which reads what the transaction holds, and asks for more
-- queues while nothing is written; then commit.apply or commit.abort, which write.
--
-- Most messages need no more than a look at their state, or at the flag of their record. They are kept in columns, and moved
-- together. All others are entries (core/position), and go one by one.
--
-- The messages of the transaction in one queue form a part, a table with these fields. A row is the number of an operation in
-- the part; fields that few parts need are nil until then.
--
--   q              the queue
--   ids, kinds     by row: lookup id and kind of each operation (transactions/tx)
--   texts          by row: stored texts of rejections and moves
--   rows           numbers of the rows whose records have to be read; asks: set of those among them whose messages may ask for
--                  something when they leave, since their states lack the flag N (core/message_state)
--   leave, bytes   ids of messages that are removed, a column, and their bytes
--   back, records  ids and records of messages that become available, columns
--   states         pairs of id and state of those in `back` that keep a state after an abort
--   entries        lists of entries: sent, received, rejected; back: received ones that a commit gives back all the same;
--                  targets: moved ones, by encoded name of the target
--
-- To the transaction (transactions/tx) commit.group adds the fields first and last, and commit.plan the fields aborting, verdicts
-- and given. If its lease is over (not is_open), its messages are given back as lapsed.
local commit = {}

-- Decide ----------------------------------------------------------------------------------------------------------------

-- Returns the parts of a transaction in the order of their first operations. `transaction`: of tx.read; its fields `first` and
-- `last` are set to the first and the last operation that sent a message, each as {part, id}, nil if none did. `queues` and
-- `gone`: of touched.queues. A queue that was deleted meanwhile has no part. context.missing names the queues that KEYS does
-- not bring.
function commit.group(transaction, queues, gone)
  local parts, known, first, last = { nil, nil }, {}, nil, nil
  local sent, rejected, moved = tx.sent, tx.rejected, tx.moved
  for n = 1, transaction.count do
    local text = transaction.operations[n]
    if text then
      local kind, name, id = tx.parse_operation(text)
      if kind == moved then touched.need(tx.target(text), queues, gone) end
      local part = known[name]
      if part == nil then
        part = commit.part(name, queues, gone)
        known[name], parts[#parts + 1] = part, part or nil
      end
      if part then
        local at = #part.ids + 1
        part.ids[at], part.kinds[at] = id, kind
        if kind == rejected or kind == moved then
          part.texts = part.texts or {}
          part.texts[at] = text
        end
      end
      if kind == sent then
        last = { part = part, id = id }
        first = first or last
      end
    end
  end
  transaction.first, transaction.last = first, last
  return parts
end

-- Returns an empty part for the queue with this encoded name; false if the queue is not there.
function commit.part(name, queues, gone)
  local q, subqueue = queues[name], string.find(name, "%3B", 1, true)
  if subqueue then touched.need(string.sub(name, 1, subqueue - 1), queues, gone) end
  if not q then
    touched.need(name, queues, gone)
    return false
  end
  -- The fields that most parts need: a table of eight is the cheapest that holds them.
  return { q = q, ids = { nil }, kinds = { nil }, leave = nil, bytes = 0, back = nil, records = nil, entries = nil }
end

-- Sorts the messages of the parts by what has to be done at a commit or, if `aborting`, an abort. `verdicts`: by lookup id how a
-- message is given back (release.given), and `given`, how an abort gives back all others; nil if the caller does not say so.
-- Returns false if context.missing names queues that this takes.
function commit.plan(transaction, parts, aborting, verdicts, given)
  transaction.aborting = aborting
  if transaction.is_open then transaction.verdicts, transaction.given = verdicts, given end
  for n = 1, #parts do
    local part = parts[n]
    local states = chunked.read(part.q.states, part.ids)
    commit.sort(transaction, part, states)
    if part.rows then commit.read(transaction, part, states) end
    if part.entries then commit.plan_entries(part, transaction.aborting) end
  end
  return not context.missing
end

-- Puts those messages that are removed, and need no more than a look at their state, into the column `leave`, and the numbers of
-- all other rows into `rows` and `asks`.
function commit.sort(transaction, part, states)
  local q, ids, kinds, sub = part.q, part.ids, part.kinds, string.sub
  -- A journal wants a copy of what leaves, a retry policy judges what comes back, and either may give a group its turn.
  local options, aborting = q.options, transaction.aborting
  local plain = not transaction.verdicts and not options.group_exclusive
    and not (aborting and options.retry or not aborting and options.journaling)
  local sent, received = tx.sent, tx.received
  local leaving = aborting and sent or received
  local sent_end = message_state.plain_end(sent, transaction.id, transaction.fence)
  local received_end = message_state.plain_end(received, transaction.id, transaction.fence)
  local from, seen, bytes, last, size = -#sent_end, #ids > 1 and {}, 0, nil, nil
  for n = 1, #ids do
    local state_text, kind = states[n], kinds[n]
    -- A message that was deleted has no state; if it is named twice, the first operation on it counts.
    if state_text and not (seen and seen[ids[n]]) then
      local plain_end = kind == received and received_end or kind == sent and sent_end
      local asks = not (plain and plain_end and sub(state_text, from) == plain_end)
      if kind == leaving and not asks then
        -- Of messages that were received together most states are the same text.
        if state_text ~= last then last, size = state_text, message_state.size(state_text) end
        bytes = bytes + size
        part.leave = part.leave or { nil }
        part.leave[#part.leave + 1] = ids[n]
      else
        part.rows = part.rows or { nil }
        part.rows[#part.rows + 1] = n
        if asks then
          part.asks = part.asks or { nil }
          part.asks[n] = true
        end
      end
    end
    if seen then seen[ids[n]] = true end
  end
  part.bytes = bytes
end

-- Reads the records of `rows`. A message that asks for nothing goes into the columns `back`, `records` and `states`; every other
-- one that the transaction still holds becomes an entry.
function commit.read(transaction, part, states)
  local rows, lids, free, flag_at = part.rows, { nil }, record.free, record.flag_at
  for n = 1, #rows do lids[n] = part.ids[rows[n]] end
  local records, back, kept = chunked.read(part.q.records, lids), { nil }, { nil }
  local changed = transaction.aborting and { nil, nil }
  for n = 1, #rows do
    local text, row, at = records[n], rows[n], #back + 1
    local asks = part.asks and part.asks[row]
    if text and not asks and free[string.byte(text, flag_at)] then
      back[at], kept[at] = lids[n], text
      if changed then changed[at * 2 - 1], changed[at * 2] = lids[n], message_state.aborted(states[row]) end
    elseif text then
      local state = message_state.parse(states[row])
      local entry = { id = lids[n], rec = text, state = state, lapsed = not transaction.is_open }
      commit.add_entry(transaction, part, row, entry)
    end
  end
  if back[1] then part.back, part.records, part.states = back, kept, changed end
end

-- Adds an entry to the list for its kind, if the transaction still holds the message.
function commit.add_entry(transaction, part, row, entry)
  if entry.state.owner ~= transaction.id or not message_state.is_locked(entry.state) then return end
  local entries = part.entries or { sent = {}, received = {}, rejected = {}, back = {}, targets = {} }
  local kind, list = part.kinds[row]
  if kind == tx.sent then
    list = entries.sent
  elseif kind == tx.received then
    list = entries.received
  elseif kind == tx.rejected then
    list, entry.why = entries.rejected, tx.reason(part.texts[row])
  else
    local target = tx.target(part.texts[row])
    entries.targets[target] = entries.targets[target] or {}
    list = entries.targets[target]
  end
  if transaction.verdicts and (kind == tx.received or kind == tx.rejected) then
    local given = transaction.verdicts[entry.id] or transaction.aborting and transaction.given
    if given then
      release.load()
      release.given(entry, given ~= "" and given or release.verdicts.failed)
      if not transaction.aborting then list = entries.back end
    end
  end
  list[#list + 1] = entry
  part.entries = entries
end

-- Asks for the queues that the entries of a part need.
function commit.plan_entries(part, aborting)
  local q, entries = part.q, part.entries
  release.load()
  if aborting then
    release.plan(q, entries.received)
    release.plan(q, entries.rejected)
  else
    trace.load()
    trace.plan_accepted(entries.sent)
    trace.expiring(q, entries.sent)
    position.may_leave(q, entries.received, "receive")
    position.may_leave(q, entries.rejected, "receive_rejected")
    release.plan(q, entries.back)
  end
  for _, moved in pairs(entries.targets) do release.plan(q, moved) end
end

-- Apply -----------------------------------------------------------------------------------------------------------------

-- Writes into their records which messages are the first and the last one that the transaction sent (3.1.4.3).
function commit.mark(transaction)
  local bits, first, last = record.bits, transaction.first, transaction.last
  if not first then return end
  if first.id == last.id then return commit.mark_record(first.part, first.id, bits.first + bits.last) end
  commit.mark_record(first.part, first.id, bits.first)
  commit.mark_record(last.part, last.id, bits.last)
end

-- Sets these bits in the record of a message: record.bits.first, record.bits.last or their sum. The record changes in the store
-- and in what was read of it, since a trace may be a copy of it.
function commit.mark_record(part, id, bits)
  if not part then return end
  local back = part.back
  local n = back and (back[1] == id and 1 or #back) -- it is the first or the last row
  if n and back[n] == id then
    part.records[n] = record.mark(part.records[n], bits)
    return store.set_record(part.q, id, part.records[n])
  end
  for _, entry in ipairs(part.entries and part.entries.sent or {}) do
    if entry.id == id then
      if bits ~= record.bits.last then entry.rec = record.set_flag(entry.rec, record.bits.first) end
      if bits ~= record.bits.first then entry.rec = record.set_flag(entry.rec, record.bits.last) end
      store.set_record(part.q, id, entry.rec)
    end
  end
end

-- Commits: received messages leave, sent ones become available, moved ones go to their targets. `queues`: by encoded name.
function commit.apply(transaction, parts, queues)
  commit.mark(transaction)
  for n = 1, #parts do
    local part = parts[n]
    local q, entries = part.q, part.entries
    if part.leave then position.delete_locked(q, part.leave, part.bytes) end
    if part.back then commit.appear(part, {}, part.back) end
    if entries then
      trace.accepted(q, entries.sent)
      release.unlock(q, entries.sent, false)
      commit.order(part)
      position.delete(q, entries.received, "receive")
      position.delete(q, entries.rejected, "receive_rejected")
      release.unlock(q, entries.back, false)
      for target, moved in pairs(entries.targets) do
        if queues[target] then
          transfer.load()
          transfer.move(q, queues[target], moved)
        else
          release.unlock(q, moved, false)
        end
      end
    end
  end
end

-- Aborts: sent messages leave as if they had never been there, all others come back.
function commit.abort(parts)
  for n = 1, #parts do
    local part = parts[n]
    local q, entries = part.q, part.entries
    if part.leave then
      position.delete_locked(q, part.leave, part.bytes)
      store.uncount_gone(q, #part.leave)
    end
    if part.back then
      commit.appear(part, part.states, {})
      store.count_event(q, "n_retried", #part.back)
    end
    if entries then
      position.delete(q, entries.sent, "aborted")
      release.unlock(q, entries.received, true)
      release.unlock(q, entries.rejected, true)
      for _, moved in pairs(entries.targets) do release.unlock(q, moved, false) end
      commit.order(part)
    end
  end
end

-- Makes the messages of the columns `back` available. `states` and `stateless` as store.unlock takes them.
function commit.appear(part, states, stateless)
  store.unlock(part.q, part.back, states, stateless)
  position.arrive(part.q, part.back, part.records)
  context.mark_changed()
end

-- Sorts what became available, since columns and entries did so apart: waiting readers are notified in the order of delivery.
function commit.order(part)
  if part.back and part.q.arrived then table.sort(part.q.arrived) end
end
