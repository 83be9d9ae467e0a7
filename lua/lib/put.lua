--- require "lib/frame"
--- require "lib/position"
--- require "lib/queue"
--- require "lib/quota"
--- require "lib/record"
--- require lazy "lib/tx"
--- require lazy "lib/trace"
-- The end of Enqueue Message (3.1.7.1.9): a place in the list for messages that nobody refuses any more.
-- An entry is {rec, large, size, priority}, and gets its lid here.
local put = {}

-- The messages of ARGV from `at` on: priority digit, flag digit, head, NUL, body; behind one with flag bit 8 its large
-- body. Returns the entries, their bytes, whether one is special, and whether one asks for more than to be found by its
-- identifiers; or nothing and a refusal.
function put.parse(q, at)
  local entries, bytes, hooked, asked, exclusive = {}, 0, false, false, queue.is(q, "x")
  while at <= #ARGV do
    local e = { priority = string.byte(ARGV[at], 1) - 48, rec = frame.stamp .. string.sub(ARGV[at], 2), large = "",
      size = nil, keys = nil, lid = nil }  -- named so that the table has room for them
    local bare = string.byte(e.rec, 14) == 48
    if not bare and record.flag(e.rec, 8) then
      at = at + 1
      e.large = ARGV[at]
    end
    if exclusive then e.rec = record.set_flag(e.rec, 1) end
    e.size = #e.rec + #e.large
    if e.size > q.max_bytes then return nil, status.MESSAGE_TOO_LARGE end
    if not (bare and not exclusive) and record.flag(e.rec, 1) then
      hooked = true
      local keys = position.keys(e)
      asked = asked or string.find(keys, "[aAjkeQuD]") ~= nil
      local limit = string.find(keys, "u", 1, true) and record.field(e.rec, "u")
      if limit and tonumber(record.field(e.rec, "S") or 0) > tonumber(limit) then
        return nil, status.ENQUEUE_TIMED_OUT
      end
    end
    bytes = bytes + e.size
    entries[#entries + 1] = e
    at = at + 1
  end
  return entries, bytes, hooked, asked
end

-- Lookup ids: the priority, for messages sent outside a transaction, and the manager's SequentialID.
function put.number(entries, t)
  for n = 1, #entries do
    frame.seq = frame.seq + 1
    entries[n].lid = string.format("%02x%014x", t and 0 or 7 - entries[n].priority, frame.seq)
  end
end

-- Available, or Locked by the transaction that sends them. `hooked`: one of them is special; `asked`: what put.parse
-- says, true if not given.
function put.store(q, entries, t, hooked, asked)
  local fields, bytes = {}, 0
  for n = 1, #entries do
    local e = entries[n]
    bytes = bytes + e.size
    fields[#fields + 1] = e.lid
    fields[#fields + 1] = e.rec
    if e.large ~= "" then
      fields[#fields + 1] = "^" .. e.lid
      fields[#fields + 1] = e.large
    end
  end
  quota.add(q, #entries, bytes)
  redis.call("HSET", q.m, unpack(fields))
  q.hooked = q.hooked or hooked
  if not t then
    if hooked and asked ~= false then
      trace.load()
      trace.accepted(q, entries, true)
    end
    position.arrive(q, entries)
    return
  end
  local ids, states, scores = {}, {}, {}
  for n = 1, #entries do
    local e = entries[n]
    ids[n] = e.lid
    states[#states + 1] = e.lid
    states[#states + 1] = "0 0 0 0 " .. e.size .. " S " .. t.id .. " " .. t.fence
    scores[#scores + 1] = t.deadline
    scores[#scores + 1] = e.lid
  end
  redis.call("HSET", q.s, unpack(states))
  redis.call("ZADD", q.l, unpack(scores))
  queue.note(q, t.deadline)
  tx.add(t, q, "S", ids)
end
