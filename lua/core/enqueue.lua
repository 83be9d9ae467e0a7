--- require "core/context"
--- require "core/position"
--- require "core/queue"
--- require "core/record"
--- require lazy "transactions/tx"
--- require lazy "features/trace"
--- require "core/store"
-- The end of Enqueue Message (3.1.7.1.9): a place in the list for messages that nobody refuses any more.
-- An entry is {rec, large, size, priority}, and gets its lid here; large only if its body is.
local enqueue = { digits = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f" } }

-- The messages of ARGV from `at` on: first the priority digits of all; then of each flag digit, head, NUL, body; behind
-- one with flag bit 8 its large body. Returns their records, the large bodies by number (nothing if there are none),
-- their bytes, whether one is special, and whether one asks for more than to be found by its identifiers; or nothing and
-- a refusal.
function enqueue.parse(q, at)
  local recs, larges, bytes, hooked, asked, exclusive = { nil }, nil, 0, false, false, queue.has(q, "x")
  local byte, stamp, most, count, last = string.byte, context.now_text, q.max_bytes, 0, #ARGV
  while at < last do
    at = at + 1
    count = count + 1
    local text = ARGV[at]
    local rec, flag = stamp .. text, byte(text)
    local size = #rec
    if flag == 104 then
      hooked = true
    elseif flag ~= 48 then
      if record.flag(rec, 8) then
        at = at + 1
        larges = larges or {}
        larges[count] = ARGV[at]
        size = size + #ARGV[at]
      end
    end
    if size > most then return nil, status.MESSAGE_TOO_LARGE end
    if flag ~= 48 and flag ~= 104 then
      local fate = enqueue.look(rec)
      if fate == "late" then return nil, status.ENQUEUE_TIMED_OUT end
      hooked = hooked or fate ~= nil
      asked = asked or fate == "asks"
    end
    if exclusive then
      rec = record.set_flag(rec, 1)
      hooked = true
    end
    bytes = bytes + size
    recs[count] = rec
  end
  return recs, larges, bytes, hooked, asked
end

-- What sets a message apart: nothing, "named" (its identifiers), "asks" (more than that), "late" (it is refused).
function enqueue.look(rec)
  if not record.flag(rec, 1) then return end
  local keys = record.keys(rec)
  local limit = string.find(keys, "u", 1, true) and record.field(rec, "u")
  if limit and tonumber(record.field(rec, "S") or 0) > tonumber(limit) then return "late" end
  return string.find(keys, "[aAjkeQuD]") and "asks" or "named"
end

-- What enqueue.parse answers as entries.
function enqueue.entries(recs, larges, priorities)
  local entries = {}
  for n = 1, #recs do
    local large = larges and larges[n]
    entries[n] = { rec = recs[n], large = large or nil, size = #recs[n] + (large and #large or 0),
      priority = string.byte(priorities, n) - 48, keys = nil, lid = nil }  -- named so that the table has room for them
  end
  return entries
end

-- Lookup ids: the priority, for messages sent outside a transaction, and the manager's SequentialID.
function enqueue.lids(priorities, count, t)
  local lids, seq, digits, byte, stem, of, from = { nil }, context.seq, enqueue.digits, string.byte, nil, nil, nil
  for n = 1, count do
    local priority = t and 55 or byte(priorities, n)
    seq = seq + 1
    local low = seq % 16
    -- All but the last digit is the same for most of a batch.
    if priority ~= of or seq - low ~= from then
      of, from = priority, seq - low
      stem = string.format("%02x%013x", 55 - priority, from / 16)
    end
    lids[n] = stem .. digits[low + 1]
  end
  context.seq = seq
  return lids
end

function enqueue.number(entries, t)
  local priorities = {}
  for n = 1, #entries do priorities[n] = entries[n].priority end
  local lids = enqueue.lids(table.concat(priorities), #entries, t)
  for n = 1, #entries do entries[n].lid = lids[n] end
  return lids
end

-- Most messages: they ask for no more than to be found by their identifiers. `bytes` in all.
function enqueue.quick(q, recs, larges, lids, bytes, hooked)
  store.add(q, lids, recs, larges, bytes)
  q.has_special = q.has_special or hooked
  position.enter(q, lids, recs, hooked)
end

-- The same in a transaction.
function enqueue.held(q, recs, larges, lids, bytes, hooked, t)
  store.add(q, lids, recs, larges, bytes)
  q.has_special = q.has_special or hooked
  local states, format, byte, free = { nil, nil }, string.format, string.byte, record.free
  local tail = t.id .. " " .. t.fence
  for n = 1, #recs do
    local rec, large = recs[n], larges and larges[n]
    states[n * 2 - 1] = lids[n]
    local size = format("%d", large and #rec + #large or #rec)
    states[n * 2] = "0 0 0 0 " .. size .. (free[byte(rec, 14)] and " SN " or " S ") .. tail
  end
  store.lock(q, lids, states, t.deadline)
  tx.add(t, q, "S", lids)
end

-- Available, or Locked by the transaction that sends them. `hooked`: one of them is special; `asked`: what enqueue.parse
-- says, true if not given.
function enqueue.store(q, entries, t, hooked, asked)
  local ids, recs, larges, bytes = { nil }, { nil }, nil, 0
  for n = 1, #entries do
    local e = entries[n]
    bytes = bytes + e.size
    ids[n], recs[n] = e.lid, e.rec
    if e.large then
      larges = larges or {}
      larges[n] = e.large
    end
  end
  store.add(q, ids, recs, larges, bytes)
  q.has_special = q.has_special or hooked
  if not t then
    if hooked and asked ~= false then
      trace.load()
      trace.accepted(q, entries, true)
    end
    position.arrive(q, entries)
    return
  end
  local states = { nil, nil }
  for n = 1, #entries do
    local e = entries[n]
    states[n * 2 - 1] = e.lid
    states[n * 2] = "0 0 0 0 " .. e.size .. " S " .. t.id .. " " .. t.fence
  end
  store.lock(q, ids, states, t.deadline)
  tx.add(t, q, "S", ids)
end
