--- require "core/position"
--- require lazy "core/record"
--- require lazy "core/release"
--- require "core/removal"
--- require "core/store"
--- require lazy "core/transfer"
--- require lazy "features/trace"
--- used by commit, tx_abort
-- Writes the end of a transaction: a commit (MS-MQDMPR 3.1.4.4) or an abort (3.1.4.5). For the scripts commit.lua and tx_abort.lua,
-- after tx_parts.plan has decided what becomes of each message and has returned true. `parts`: those of the transaction
-- (transactions/tx_parts). The caller then deletes the log (tx.forget), which marks the change, and saves the queues.
-- Change together with: tx_parts.plan_entries, which plans what is done here; core/lapse, which undoes the part of one queue. What
-- core/release and core/removal count for entries is counted here for the columns. Tests: tests/msmq/test_ends.py,
-- tests/conformance/test_transaction.py.
local commit = {}

-- Commits: received messages leave, sent ones become available, moved ones go to their targets. `queues`: by encoded name.
function commit.apply(transaction, parts, queues)
  commit.mark(transaction)
  for n = 1, #parts do
    local part = parts[n]
    if part.leaving then removal.delete_locked(part.q, part.leaving, part.bytes, part.leaving) end
    if part.arriving then commit.make_available(part, {}, part.arriving) end
    if part.entries then commit.apply_entries(part, queues) end
  end
end

-- Does so for the entries of a part, of which each message is in one list.
function commit.apply_entries(part, queues)
  local q, entries = part.q, part.entries
  trace.accepted(q, entries.sent)
  release.unlock(q, entries.sent)
  removal.delete(q, entries.received, "receive")
  removal.delete(q, entries.rejected, "receive_rejected")
  release.unlock(q, entries.given_back)
  for target, moved in pairs(entries.targets) do
    if queues[target] then
      transfer.move(q, queues[target], moved)
    else -- the target was deleted
      release.unlock(q, moved)
    end
  end
  commit.sort_arrived(part)
end

-- Aborts: sent messages leave as if they had never been there, all others come back.
function commit.abort(parts)
  for n = 1, #parts do
    local part = parts[n]
    local q, entries = part.q, part.entries
    if part.leaving then
      removal.delete_locked(q, part.leaving, part.bytes, part.leaving)
      store.uncount_gone(q, #part.leaving) -- they were never there
    end
    if part.arriving then
      commit.make_available(part, part.arriving_states, {})
      store.count_event(q, "n_retried", #part.arriving)
    end
    if entries then
      removal.delete(q, entries.sent, "aborted")
      release.unlock(q, entries.received, true)
      release.unlock(q, entries.rejected, true)
      for _, moved in pairs(entries.targets) do release.unlock(q, moved) end
      commit.sort_arrived(part)
    end
  end
end

-- Makes the messages of the column `arriving` available. `states` and `stateless` as store.unlock takes them.
function commit.make_available(part, states, stateless)
  store.unlock(part.q, part.arriving, states, stateless)
  position.arrive(part.q, part.arriving, part.arriving_records)
end

-- Sorts what became available, since columns and entries did so apart: waiting readers are notified in the order of delivery.
function commit.sort_arrived(part)
  if part.arriving and part.q.arrived then table.sort(part.q.arrived) end
end

-- First and last message ------------------------------------------------------------------------------------------------

-- Writes into their records which messages are the first and the last one that the transaction sent (3.1.4.3).
function commit.mark(transaction)
  local bits, first, last = record.bits, transaction.first, transaction.last
  if not first then return end
  if first.id == last.id then return commit.mark_record(first.part, first.id, bits.first + bits.last) end
  commit.mark_record(first.part, first.id, bits.first)
  commit.mark_record(last.part, last.id, bits.last)
end

-- Sets these bits in the record of a message (record.mark). The record changes in the store and in what was read of it, since a
-- trace may be a copy of it. `part`: false if its queue was deleted.
function commit.mark_record(part, id, bits)
  if not part then return end
  local arriving = part.arriving
  local n = arriving and (arriving[1] == id and 1 or #arriving) -- it is the first or the last row
  if n and arriving[n] == id then
    part.arriving_records[n] = record.mark(part.arriving_records[n], bits)
    return store.set_record(part.q, id, part.arriving_records[n])
  end
  for _, entry in ipairs(part.entries and part.entries.sent or {}) do
    if entry.id == id then
      entry.rec = record.mark(entry.rec, bits)
      store.set_record(part.q, id, entry.rec)
    end
  end
end
