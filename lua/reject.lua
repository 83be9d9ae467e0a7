-- Mark a message received in an open transaction as rejected: at commit it leaves with a negative acknowledgement.
-- MS-MQRR 3.1.4.14 R_SetUserAcknowledgementClass
--
-- KEYS message
-- QUEUE[1] the queue it was received from
-- ARGV[3] transaction  id
-- ARGV[4] fence
-- ARGV[5] id  lookup id
-- ARGV[6] reason  or empty
-- RETURNS OK
-- RETURNS TRANSACTION_SEQUENCE
-- RETURNS TRANSACTION_USAGE
-- RETURNS MESSAGE_NOT_FOUND
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/position"
--- require "transactions/tx"
--- require "transactions/txlog"
local reply = context.open()
if reply then return reply end
local t, code = tx.open(ARGV[3], ARGV[4])
if not t then return context.close({ code }) end
local q = queue.open(1, 2)
local e = q and position.read(q, { ARGV[5] })[1]
if not e then return context.close({ status.MESSAGE_NOT_FOUND }) end
if not e.st or e.st.owner ~= t.id or string.sub(e.st.kind, 1, 1) ~= "R" then
  return context.close({ status.TRANSACTION_USAGE })
end
local name, texts, count = queue.name(q), txlog.read(t.id)
local stem, op, why = t.id .. ":", "X " .. name .. " ", ARGV[6] ~= "" and "  " .. ARGV[6] or ""
for k = 2, count + 1 do
  local _, of, lid = txlog.parse(texts[k] or "")
  if lid == e.lid and of == name then redis.call("HSET", KEYS[2], stem .. k - 1, op .. lid .. why) end
end
context.mark_changed()
return context.close({ status.OK })
