--- require "core/context"
--- require "core/chunked"
--- require "core/message_state"
--- require "core/queue"
--- require "core/record"
--- require lazy "core/release"
--- require "core/removal"
--- require lazy "features/trace"
--- require "transactions/touched"
--- require "transactions/tx"
--- used by commit, tx_abort
-- What the end of a transaction has to do in each queue (MS-MQDMPR 3.1.4.4, 3.1.4.5). commit.lua and tx_abort.lua call
-- tx_parts.group, which sorts the operations by queue, and then tx_parts.plan, which reads what the transaction holds. Both ask for
-- more queues (context.missing) and write nothing. transactions/commit writes what they have decided.
--
-- Most messages need no more than a look at their state, or at the flag of their record. They are kept in columns, and moved
-- together. All others are entries (core/position), and go one by one.
--
-- The messages of the transaction in one queue form a part, a table with these fields. A row is the number of an operation in
-- the part; fields that few parts need are nil until then.
--
--   q                 the queue
--   ids, kinds        by row: lookup id and kind of each operation (transactions/tx)
--   texts             by row: stored texts of rejections and moves
--   unread            numbers of the rows whose records have to be read
--   asking            set of the rows in `unread` whose messages may ask for something when they leave, since their states lack the
--                     flag N (core/message_state; position.lock sets it), or since states do not suffice in this queue
--   leaving, bytes    ids of messages that are removed, a column, and their bytes
--   arriving          ids of messages that become available, a column; arriving_records: their records
--   arriving_states   pairs of id and state of those in `arriving` that keep a state after an abort
--   entries           lists of entries: sent, received, rejected; given_back: received ones that a commit gives back all the same;
--                     targets: moved ones, by encoded name of the target
--
-- These functions add fields to the transaction (transactions/tx):
--
--   first, last       tx_parts.group: the first and the last operation that sent a message, each as {part, id}; nil if none did
--   aborting          tx_parts.plan: true for an abort
--   verdicts          tx_parts.plan: by lookup id how a message is given back (release.note_verdict); nil if the caller does not
--                     say so
--   default_verdict   tx_parts.plan: how an abort gives back all others; nil if the caller does not say so
--
-- If the lease of the transaction is over (not is_open), its messages are given back as lapsed, and verdicts do not count.
--
-- Change together with: transactions/commit, which carries out each list and column; core/lapse, which undoes a part without the
-- log. Messages whose states end with message_state.plain_end get none of the hooks of features: an option of queues that acts on
-- every message that leaves or comes back needs a term in tx_parts.states_suffice. tests/msmq/test_ends.py runs each end
-- with messages of each kind in queues with each of these options.
local tx_parts = {}

-- Operations by queue ---------------------------------------------------------------------------------------------------

-- Returns the parts of a transaction in the order of their first operations. `transaction`: of tx.read; `queues` and `gone`: of
-- touched.queues. A queue that was deleted meanwhile has no part. context.missing names the queues that KEYS does not bring.
function tx_parts.group(transaction, queues, gone)
  local found, by_name, first, last = { nil, nil }, {}, nil, nil
  local sent, rejected, moved = tx.sent, tx.rejected, tx.moved
  for n = 1, transaction.count do
    local text = transaction.operations[n]
    if text then
      local kind, name, id = tx.parse_operation(text)
      if kind == moved then touched.need(tx.target(text), queues, gone) end
      local part = by_name[name] -- false: the queue is not there
      if part == nil then
        part = tx_parts.new(name, queues, gone)
        by_name[name], found[#found + 1] = part, part or nil
      end
      if part then
        local row = #part.ids + 1
        part.ids[row], part.kinds[row] = id, kind
        if kind == rejected or kind == moved then
          part.texts = part.texts or {}
          part.texts[row] = text
        end
      end
      if kind == sent then
        last = { part = part, id = id }
        first = first or last
      end
    end
  end
  transaction.first, transaction.last = first, last
  return found
end

-- Returns an empty part for the queue with this encoded name; false if the queue is not there.
function tx_parts.new(name, queues, gone)
  local home, subqueue = queue.split_name(name)
  if subqueue then touched.need(home, queues, gone) end
  touched.need(name, queues, gone)
  local q = queues[name]
  if not q then return false end
  -- The fields that most parts need: a table of eight is the cheapest that holds them.
  return { q = q, ids = { nil }, kinds = { nil }, leaving = nil, bytes = 0, arriving = nil, arriving_records = nil,
    entries = nil }
end

-- What becomes of the messages ------------------------------------------------------------------------------------------

-- Sorts the messages of the parts by what has to be done at a commit or, if `aborting`, an abort. `verdicts`, `default_verdict`: as
-- above. Returns false if context.missing names queues that this takes.
function tx_parts.plan(transaction, parts, aborting, verdicts, default_verdict)
  transaction.aborting = aborting
  if transaction.is_open then transaction.verdicts, transaction.default_verdict = verdicts, default_verdict end
  for n = 1, #parts do
    local part = parts[n]
    local states = chunked.read(part.q.states, part.ids)
    tx_parts.sort(transaction, part, states)
    if part.unread then tx_parts.read(transaction, part, states) end
    if part.entries then tx_parts.plan_entries(part, transaction.aborting) end
  end
  return not context.missing
end

-- Do the states of the messages in this queue tell all that has to be known of them? A journal wants a copy of what leaves, a retry
-- policy judges what comes back, and either may give a group its turn.
function tx_parts.states_suffice(transaction, q)
  if transaction.verdicts or q.options.group_exclusive then return false end
  if transaction.aborting then return not q.options.retry end
  return not q.options.journaling
end

-- Puts those messages that are removed, and need no more than a look at their state, into the column `leaving`, and the numbers of
-- all other rows into `unread` and `asking`. `states`: by row, their texts.
function tx_parts.sort(transaction, part, states)
  local ids, kinds, sub = part.ids, part.kinds, string.sub
  local states_suffice = tx_parts.states_suffice(transaction, part.q)
  local leaving_kind = transaction.aborting and tx.sent or tx.received
  -- With what the states of messages end that were sent or received, and ask for nothing: both texts are equally long. Rejected and
  -- moved messages have none, so they always ask.
  local plain_ends = {
    [tx.sent] = message_state.plain_end(message_state.sent, transaction.id, transaction.fence),
    [tx.received] = message_state.plain_end(message_state.received, transaction.id, transaction.fence),
  }
  local end_at, bytes, last_text, size = -#plain_ends[tx.sent], 0, nil, nil
  for n = 1, #ids do
    local state_text, kind = states[n], kinds[n]
    if state_text then -- a message that was deleted has none
      local asks = not states_suffice or sub(state_text, end_at) ~= plain_ends[kind]
      if kind == leaving_kind and not asks then
        -- Of messages that were received together most states are the same text.
        if state_text ~= last_text then last_text, size = state_text, message_state.size(state_text) end
        bytes = bytes + size
        part.leaving = part.leaving or { nil }
        part.leaving[#part.leaving + 1] = ids[n]
      else
        part.unread = part.unread or { nil }
        part.unread[#part.unread + 1] = n
        if asks then
          part.asking = part.asking or { nil }
          part.asking[n] = true
        end
      end
    end
  end
  part.bytes = bytes
end

-- Reads the records of the rows `unread`. A message that is not among `asking`, and whose record asks for nothing when it arrives,
-- goes into the columns `arriving`, `arriving_records` and `arriving_states`; every other one that the transaction still holds
-- becomes an entry. `states`: as of tx_parts.sort.
function tx_parts.read(transaction, part, states)
  local rows, ids, free, flag_at = part.unread, { nil }, record.free, record.flag_at
  for n = 1, #rows do ids[n] = part.ids[rows[n]] end
  local records, arriving, arriving_records = chunked.read(part.q.records, ids), { nil }, { nil }
  local id_states = transaction.aborting and { nil, nil }
  for n = 1, #rows do
    local rec, row, at = records[n], rows[n], #arriving + 1
    local asks = part.asking and part.asking[row]
    if rec and not asks and free[string.byte(rec, flag_at)] then
      arriving[at], arriving_records[at] = ids[n], rec
      if id_states then
        id_states[at * 2 - 1], id_states[at * 2] = ids[n], message_state.aborted(states[row])
      end
    elseif rec then
      local state = message_state.parse(states[row])
      local entry = { id = ids[n], rec = rec, state = state, lapsed = not transaction.is_open }
      tx_parts.add_entry(transaction, part, row, entry)
    end
  end
  if arriving[1] then
    part.arriving, part.arriving_records, part.arriving_states = arriving, arriving_records, id_states
  end
end

-- Adds an entry to the list for its kind, if the transaction still holds the message.
function tx_parts.add_entry(transaction, part, row, entry)
  if entry.state.owner ~= transaction.id then return end
  local entries = part.entries or { sent = {}, received = {}, rejected = {}, given_back = {}, targets = {} }
  local kind = part.kinds[row]
  local list
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
    local verdict = transaction.verdicts[entry.id] or transaction.aborting and transaction.default_verdict
    if verdict then
      release.note_verdict(entry, verdict ~= "" and verdict or release.verdicts.failed)
      if not transaction.aborting then list = entries.given_back end
    end
  end
  list[#list + 1] = entry
  part.entries = entries
end

-- Asks for the queues that the entries of a part need. Loads core/release and features/trace, which transactions/commit uses
-- afterwards.
function tx_parts.plan_entries(part, aborting)
  local q, entries = part.q, part.entries
  if aborting then
    release.plan(q, entries.received)
    release.plan(q, entries.rejected)
  else
    trace.plan_accepted(entries.sent)
    release.plan(q, entries.sent)
    removal.plan(q, entries.received, "receive")
    removal.plan(q, entries.rejected, "receive_rejected")
    release.plan(q, entries.given_back)
  end
  for _, moved in pairs(entries.targets) do release.plan(q, moved) end
end
