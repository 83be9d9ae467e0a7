-- Close a handle. The last handle of an empty subqueue takes the subqueue with it, unless an open transaction moves
-- something there.
-- MS-MQDMPR 3.1.7.1.6 Close Queue
--
-- KEYS admin
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] name  as written, with its subqueue
-- ARGV[4] handle  number, unique in the session
-- RETURNS OK
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/handle"
--- require "transactions/tx"
local reply = context.open()
if reply then return reply end
context.mark_changed()
local name = string.match(KEYS[6], ":q:([^:]+):q$")
local stem = name .. "|" .. string.match(ARGV[1], "^%d+") .. "|" .. ARGV[4] .. "|"
redis.call("ZREMRANGEBYLEX", KEYS[4], "[" .. stem, "(" .. stem .. "~")
local q = queue.open(1, 5)

-- Where very many operations are open, one of them is taken to be such a move: an empty subqueue more does no harm.
local function awaited()
  return redis.call("HLEN", KEYS[2]) > 4000 or tx.moves_to(name)
end

if q and #KEYS > 13 and tonumber(q.messages) == 0 and #handle.all(name) == 0 and not awaited() then
  redis.call("UNLINK", q.q, q.a, q.l, q.m, q.s, q.t, q.w, q.i)
  queue.forget(q)
  redis.call("HDEL", KEYS[3], ARGV[3])
end
return context.close({ status.OK })
