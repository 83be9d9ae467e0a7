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
-- Commit and abort of a transaction (MS-MQDMPR 3.1.4.4, 3.1.4.5), called by commit.lua in three steps: commit.group sorts
-- the operations by queue, commit.plan reads what the transaction holds and refuses while it still can, commit.apply
-- and commit.abort write.
--
-- Of each queue the transaction's messages form a part, a table with these fields:
--   q                     the queue
--   ids, kinds            columns with an element for each operation, in order: lookup id, kind
--   texts                 by row: stored texts of rejections and moves
--   leave, bytes          columns of ids that are removed, and how many bytes they hold
--   back, records         columns of messages that become available
--   states                pairs of id and new state of those that come back after an abort
--   entries               messages that ask for something beside, by the kind of their operation; of moves by target;
--                         in `back` those that a commit gives back
local commit = {}

-- The parts of a transaction (tx.read) in the order of their first operations; then the first and the last operation that
-- sent a message, each {part, id}. A queue that was deleted meanwhile has no part. context.missing names the queues that
-- KEYS does not bring.
function commit.group(texts, count, queues, gone)
  local parts, known, first, last = { nil, nil }, {}, nil, nil
  for n = 2, count + 1 do
    local text = texts[n]
    if text then
      local kind, name, lid = tx.parse_operation(text)
      if kind == "M" then touched.need(tx.target(text), queues, gone) end
      local part = known[name]
      if part == nil then
        part = commit.part(name, queues, gone)
        known[name], parts[#parts + 1] = part, part or nil
      end
      if part then
        local at = #part.ids + 1
        part.ids[at], part.kinds[at] = lid, kind
        if kind == "X" or kind == "M" then
          part.texts = part.texts or {}
          part.texts[at] = text
        end
      end
      if kind == "S" then
        last = { part = part, lid = lid }
        first = first or last
      end
    end
  end
  return parts, first, last
end

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

-- The transaction as a table {id, fence, late, given, verdicts}. `given` and `verdicts`, by lookup id, say how its messages
-- are given back (ARGV[6] and ARGV[7+] of commit.lua); nil if the caller does not. If the lease is over (`late`), all
-- messages are given back as lapsed.
function commit.transaction(id, fence, late)
  local verdicts
  if ARGV[6] and not late then
    verdicts = {}
    for n = 7, #ARGV, 2 do verdicts[ARGV[n]] = ARGV[n + 1] end
  end
  return { id = id, fence = fence, late = late, given = verdicts and ARGV[6], verdicts = verdicts }
end

-- Decides whether the transaction may commit, or abort. False if context.missing names queues that this takes.
function commit.plan(transaction, parts, aborting)
  for n = 1, #parts do
    local part = parts[n]
    local states = chunked.read(part.q.states, part.ids)
    local rows = commit.sort(transaction, part, states, aborting)
    if rows[1] then commit.read(transaction, part, rows, states, aborting) end
    if part.entries then commit.plan_entries(part, aborting) end
  end
  return not context.missing
end

-- Fills the column `leave` with messages that need no more than their state. Returns the numbers of all other rows; those
-- are negative whose state lacks the flag N, so that the message may ask for something when it leaves.
function commit.sort(transaction, part, states, aborting)
  local q, ids, kinds, sub = part.q, part.ids, part.kinds, string.sub
  -- A journal wants a copy of what leaves, a retry policy judges what comes back, and either may give a group its turn.
  local options = q.options
  local plain = not transaction.verdicts and not options.group_exclusive
    and not (aborting and options.retry or not aborting and options.journaling)
  local leaving = aborting and "S" or "R"
  local suffix = "N " .. transaction.id .. " " .. transaction.fence
  local from, seen, rows, bytes, last, size = -#suffix - 1, #ids > 1 and {}, { nil }, 0, nil, nil
  for n = 1, #ids do
    local state, kind = states[n], kinds[n]
    -- A message that was deleted has no state; if it is named twice, the first operation on it counts.
    if state and not (seen and seen[ids[n]]) then
      if not (plain and (kind == "R" or kind == "S") and sub(state, from) == kind .. suffix) then
        rows[#rows + 1] = -n
      elseif kind == leaving then
        -- Of messages that were received together most states are the same text.
        if state ~= last then last, size = state, message_state.size(state) end
        bytes = bytes + size
        part.leave = part.leave or { nil }
        part.leave[#part.leave + 1] = ids[n]
      else
        rows[#rows + 1] = n
      end
    end
    if seen then seen[ids[n]] = true end
  end
  part.bytes = bytes
  return rows
end

-- Reads the records of these rows (commit.sort). A message that asks for nothing goes into the columns `back`, `records`
-- and `states`, every other one that the transaction still holds becomes an entry.
function commit.read(transaction, part, rows, states, aborting)
  local lids, free = { nil }, record.free
  for n = 1, #rows do lids[n] = part.ids[math.abs(rows[n])] end
  local records, back, kept, changed = chunked.read(part.q.records, lids), { nil }, { nil }, aborting and { nil, nil }
  for n = 1, #rows do
    local text, row, at = records[n], math.abs(rows[n]), #back + 1
    if text and rows[n] > 0 and free[string.byte(text, 14)] then
      back[at], kept[at] = lids[n], text
      if changed then changed[at * 2 - 1], changed[at * 2] = lids[n], message_state.aborted(states[row]) end
    elseif text then
      local e = { lid = lids[n], rec = text, st = message_state.parse(states[row]), lapsed = transaction.late }
      commit.add_entry(transaction, part, row, e, aborting)
    end
  end
  if back[1] then part.back, part.records, part.states = back, kept, changed end
end

function commit.add_entry(transaction, part, row, e, aborting)
  if e.st.owner ~= transaction.id or not message_state.is_locked(e.st) then return end
  local entries, kind = part.entries or { S = {}, R = {}, X = {}, back = {}, targets = {} }, part.kinds[row]
  local list = entries[kind]
  if kind == "M" then
    local target = tx.target(part.texts[row])
    entries.targets[target] = entries.targets[target] or {}
    list = entries.targets[target]
  elseif kind == "X" then
    e.why = tx.reason(part.texts[row])
  end
  if transaction.verdicts and (kind == "R" or kind == "X") then
    local given = transaction.verdicts[e.lid] or aborting and transaction.given
    if given then
      release.load()
      release.given(e, given ~= "" and given or "a")
      if not aborting then list = entries.back end
    end
  end
  list[#list + 1] = e
  part.entries = entries
end

-- Asks for the queues that the ends of these messages leave traces in.
function commit.plan_entries(part, aborting)
  local q, entries = part.q, part.entries
  release.load()
  if aborting then
    release.plan(q, entries.R)
    release.plan(q, entries.X)
  else
    trace.load()
    trace.plan_accepted(entries.S)
    trace.expiring(q, entries.S)
    position.may_leave(q, entries.R, "receive")
    position.may_leave(q, entries.X, "receive_rejected")
    release.plan(q, entries.back)
  end
  for _, moved in pairs(entries.targets) do release.plan(q, moved) end
end

-- Marks the first and the last message sent in the transaction (3.1.4.3): {part, id} each, nil if it sent none.
function commit.mark(first, last)
  if not first then return end
  local bits = record.bits
  if first.lid == last.lid then return commit.mark_record(first.part, first.lid, bits.first + bits.last) end
  commit.mark_record(first.part, first.lid, bits.first)
  commit.mark_record(last.part, last.lid, bits.last)
end

-- `bits`: record.bits.first, record.bits.last or their sum. The record changes in the store and in what was read of it, since
-- a trace may be a copy of it.
function commit.mark_record(part, lid, bits)
  if not part then return end
  local back = part.back
  local n = back and (back[1] == lid and 1 or #back) -- it is the first or the last row
  if n and back[n] == lid then
    part.records[n] = record.mark(part.records[n], bits)
    return store.set_record(part.q, lid, part.records[n])
  end
  for _, e in ipairs(part.entries and part.entries.S or {}) do
    if e.lid == lid then
      if bits ~= record.bits.last then e.rec = record.set_flag(e.rec, record.bits.first) end
      if bits ~= record.bits.first then e.rec = record.set_flag(e.rec, record.bits.last) end
      store.set_record(part.q, lid, e.rec)
    end
  end
end

-- Received messages are gone, sent ones become available, moved ones are in their targets.
function commit.apply(parts, queues)
  for n = 1, #parts do
    local part = parts[n]
    local q, entries = part.q, part.entries
    if part.leave then position.drop(q, part.leave, part.bytes) end
    if part.back then commit.appear(part, {}, part.back) end
    if entries then
      trace.accepted(q, entries.S)
      release.unlock(q, entries.S, false)
      commit.order(part)
      position.finish(q, entries.R, "receive")
      position.finish(q, entries.X, "receive_rejected")
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

-- Sent messages were never there, all others are where they were before.
function commit.abort(parts)
  for n = 1, #parts do
    local part = parts[n]
    local q, entries = part.q, part.entries
    if part.leave then
      position.drop(q, part.leave, part.bytes)
      store.uncount_gone(q, #part.leave)
    end
    if part.back then
      commit.appear(part, part.states, {})
      store.count_event(q, "n_retried", #part.back)
    end
    if entries then
      position.delete(q, entries.S, "aborted")
      release.unlock(q, entries.R, true)
      release.unlock(q, entries.X, true)
      for _, moved in pairs(entries.targets) do release.unlock(q, moved, false) end
      commit.order(part)
    end
  end
end

-- The messages of the columns `back` become available. `states` and `stateless` as store.unlock takes them.
function commit.appear(part, states, stateless)
  store.unlock(part.q, part.back, states, stateless)
  position.arrive(part.q, part.back, part.records)
  context.mark_changed()
end

-- Rows and entries became available apart; waiting readers are woken in the order of delivery.
function commit.order(part)
  if part.back and part.q.arrived then table.sort(part.q.arrived) end
end
