-- Put 1..N messages into a queue: all of them, or none.
-- MS-MQDMPR 3.1.7.1.9 Enqueue Message
--
-- KEYS message
-- QUEUE[1] the queue
-- ARGV[3] generation  of the queue behind the handle
-- ARGV[4] transaction  id, "" outside a transaction
-- ARGV[5] fence  of the transaction, "+lease_ms" to begin it here, "" outside
-- ARGV[6+] message  priority digit, flag digit, head, NUL, body (lib/record); behind one with flag bit 8 its large body
-- RETURNS OK ids of the messages, then arrival time in ms, fence of the transaction
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS TRANSACTION_SEQUENCE
-- RETURNS TRANSACTION_USAGE
-- RETURNS TRANSACTION_TOO_LARGE
-- RETURNS PUT_INHIBITED
-- RETURNS MESSAGE_TOO_LARGE
-- RETURNS ENQUEUE_TIMED_OUT
-- RETURNS ENQUEUE_MANAGER_QUOTA
-- RETURNS ENQUEUE_QUEUE_QUOTA
--- require "lib/frame"
--- require "lib/queue"
--- require "lib/due"
--- require "lib/position"
--- require "lib/quota"
--- require lazy "lib/tx"
--- require "lib/wake"
local reply = frame.open()
if reply then return reply end
local q = queue.open(1, 3)
if not q or q.generation ~= ARGV[3] then return frame.close({ status.QUEUE_NOT_AVAILABLE }) end
due.serve(q)

-- decide -----------------------------------------------------------------------------------------
local function refuse(code)
  quota.save(q)
  reply = frame.close({ code })
  wake.ring(q)
  return reply
end

local t, code
if (ARGV[4] ~= "") ~= queue.is(q, "t") then return refuse(status.TRANSACTION_USAGE) end
if queue.is(q, "p") then return refuse(status.PUT_INHIBITED) end
if ARGV[4] ~= "" then
  tx.load()
  t, code = tx.open(ARGV[4], ARGV[5])
  if not t then return refuse(code) end
end

local exclusive = queue.is(q, "x")
local entries, bytes, at, hooked = {}, 0, 6, false
while at <= #ARGV do
  local e = { priority = string.byte(ARGV[at], 1) - 48, rec = frame.stamp .. string.sub(ARGV[at], 2), large = "" }
  if record.flag(e.rec, 8) then
    at = at + 1
    e.large = ARGV[at]
  end
  if exclusive then e.rec = record.set_flag(e.rec, 1) end
  e.size = #e.rec + #e.large
  if e.size > q.max_bytes then return refuse(status.MESSAGE_TOO_LARGE) end
  if record.flag(e.rec, 1) then
    hooked = true
    local limit = record.field(e.rec, "u")
    if limit and tonumber(record.field(e.rec, "S") or 0) > tonumber(limit) then
      return refuse(status.ENQUEUE_TIMED_OUT)
    end
  end
  bytes = bytes + e.size
  entries[#entries + 1] = e
  at = at + 1
end
if t and t.count + #entries > tx.most then return refuse(status.TRANSACTION_TOO_LARGE) end
code = quota.refuses(q, #entries, bytes)
if code then return refuse(code) end

-- apply ------------------------------------------------------------------------------------------
frame.touch()
quota.add(q, #entries, bytes)
local fields, ids = {}, {}
reply = { status.OK, "", 0 }
for n = 1, #entries do
  local e = entries[n]
  frame.seq = frame.seq + 1
  e.lid = string.format("%02x%014x", t and 0 or 7 - e.priority, frame.seq)
  ids[n] = e.lid
  fields[#fields + 1] = e.lid
  fields[#fields + 1] = e.rec
  if e.large ~= "" then
    fields[#fields + 1] = "^" .. e.lid
    fields[#fields + 1] = e.large
  end
  reply[n + 3] = e.lid
end
redis.call("HSET", q.m, unpack(fields))
if hooked then redis.call("HSET", q.q, "hooked", 1) end
if t then
  local states, scores = {}, {}
  for n = 1, #entries do
    states[#states + 1] = ids[n]
    states[#states + 1] = "0 0 0 0 " .. entries[n].size .. " S " .. t.id .. " " .. t.fence
    scores[#scores + 1] = t.deadline
    scores[#scores + 1] = ids[n]
  end
  redis.call("HSET", q.s, unpack(states))
  redis.call("ZADD", q.l, unpack(scores))
  queue.note(q, t.deadline)
  tx.add(t, q, "S", ids)
else
  position.arrive(q, entries)
end
reply[#reply + 1] = frame.stamp
reply[#reply + 1] = t and t.fence or ""
quota.save(q)
reply = frame.close(reply)
wake.ring(q)
return reply
