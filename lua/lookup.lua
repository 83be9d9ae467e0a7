-- Read one particular message: peek, take, lock, or receive in a transaction, by lookup id. Never waits.
-- MS-MQDMPR 3.1.7.1.13 Read Message By Lookup Identifier, 3.1.7.3.3 Seek Available Message Position With Id
--
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] generation  of the queue behind the handle
-- ARGV[4] mode  peek | take | lock | tx
-- ARGV[5] seek  first | previous | current | next | last
-- ARGV[6] id  the lookup id; ignored for first and last
-- ARGV[7] owner  id of the transaction, "" otherwise
-- ARGV[8] grant  fence of the transaction; lease of the lock in ms; "" otherwise
-- ARGV[9] allow_peek  "1": stay visible to peeks while locked
-- ARGV[10] held  fence of a lock on the message that this call takes over, "" none
-- RETURNS OK fence, deadline in ms, now in ms, 0, then id, state, record
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS MESSAGE_NOT_FOUND
-- RETURNS TRANSACTION_USAGE
-- RETURNS TRANSACTION_SEQUENCE
-- RETURNS TRANSACTION_TOO_LARGE
-- RETURNS GET_INHIBITED
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "lib/frame"
--- require "lib/queue"
--- require "lib/due"
--- require "lib/seek"
--- require "lib/position"
--- require "lib/message"
--- require "lib/quota"
--- require lazy "lib/tx"
--- require "lib/wake"
--- require lazy "lib/turn"
local reply = frame.open()
if reply then return reply end
local q = queue.open(1, 3)
if frame.again then
  for _, e in ipairs(q and position.read(q, { frame.again.ids }) or {}) do message.append(q, frame.again.reply, e) end
  return frame.again.reply
end
if not q or q.generation ~= ARGV[3] then return frame.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.join(q, 3)
due.serve(q)
if ARGV[5] == "current" then due.one(q, ARGV[6]) end

local function finish(code, upto, ids)
  quota.save(q)
  if type(code) == "number" then code = { code } end
  code = frame.close(code, upto, ids)
  wake.ring(q)
  return code
end

if frame.missing then return finish(frame.missing) end

-- decide -----------------------------------------------------------------------------------------
local mode, action, lid = ARGV[4], ARGV[5], ARGV[6]
local t, code
if queue.is(q, "g") then return finish(status.GET_INHIBITED) end
if mode == "tx" then
  if not queue.is(q, "t") then return finish(status.TRANSACTION_USAGE) end
  tx.load()
  t, code = tx.open(ARGV[7], ARGV[8])
  if not t then return finish(code) end
  if t.count >= tx.most then return finish(status.TRANSACTION_TOO_LARGE) end
end
local e
if action == "first" or action == "last" then
  if mode == "peek" then
    e = seek.visible(q, "", action == "last")
  else
    e = action == "first" and seek.available(q, "", 1)[1] or action == "last" and seek.back(q, "") or nil
  end
else
  local anchor = position.read(q, { lid })[1]
  if not anchor then return finish(status.MESSAGE_NOT_FOUND) end
  local st = anchor.st
  if action == "current" then
    if redis.call("ZSCORE", q.a, lid) then
      if not seek.expired(anchor) then e = anchor end
    elseif ARGV[10] ~= "" and st and st.fence == ARGV[10] and string.sub(st.kind, 1, 1) == "L" then
      e = anchor
      if t then st.deliveries = st.deliveries - 1 end
    elseif mode == "peek" and st and not string.find(st.kind, "[P-]") then
      if not string.find(st.kind, "V", 1, true) then return finish(status.TRANSACTION_USAGE) end
      e = anchor
    end
  elseif mode == "peek" then
    e = seek.visible(q, lid, action == "previous")
  elseif action == "previous" then
    e = seek.back(q, lid)
  else
    e = seek.available(q, lid, 1)[1]
  end
end
if e and mode ~= "peek" and queue.is(q, "x") and not q.parent and ARGV[10] == "" then
  turn.load()
  if turn.busy(q, e.rec) then e = nil end
end
if not e then return finish(status.MESSAGE_NOT_FOUND) end
if mode == "take" and not position.may_leave(q, { e }, "receive") then return finish(frame.missing) end

-- apply ------------------------------------------------------------------------------------------
reply = { status.OK, "", 0, "", "", frame.now, 0 }
local visible = ARGV[9] == "1" and "V" or ""
if mode == "lock" then
  frame.touch()
  reply[4] = string.format("%.0f", frame.history)
  reply[5] = string.format("%.0f", frame.now + tonumber(ARGV[8]))
  position.lock(q, { e }, "L" .. visible, ARGV[1], reply[4], reply[5])
elseif t then
  reply[4], reply[5] = t.fence, t.deadline
  position.lock(q, { e }, "R" .. visible, t.id, t.fence, t.deadline)
  tx.add(t, q, "R", { e.lid })
end
message.append(q, reply, e)
if mode == "take" then position.delete(q, { e }, "receive") end
if mode == "lock" or t then return finish(reply, 7, e.lid) end
return finish(reply)
