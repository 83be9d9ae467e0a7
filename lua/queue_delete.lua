-- Delete a queue with its subqueues and everything in them, locked or not. Who waits on it learns it at once.
-- MS-MQDMPR 3.1.7.1.4 Delete Queue
--
-- KEYS admin
-- QUEUE[1] the queue
-- QUEUE[2+] its subqueues
-- ARGV[3+] name  of each queue of KEYS as written
-- RETURNS OK number of messages that went with it
-- RETURNS QUEUE_NOT_FOUND
-- RETURNS KEYS_CHANGED names of subqueues, as written, that KEYS must bring as well
-- FLAGS allow-oom
--- require "lib/frame"
--- require "lib/queue"
--- require "lib/quota"
--- require "lib/wake"
--- require "lib/ring"
local reply = frame.open()
if reply then return reply end
local first = queue.open(1, 6)
if not first then return frame.close({ status.QUEUE_NOT_FOUND }) end
local brought, missing = {}, { status.KEYS_CHANGED, "", 0 }
for n = 3, #ARGV do brought[ARGV[n]] = true end
for _, name in ipairs(redis.call("HKEYS", KEYS[4])) do
  local subqueue = string.sub(name, 1, #ARGV[3] + 1) == ARGV[3] .. ";"
  if subqueue and not brought[name] then missing[#missing + 1] = name end
end
if #missing > 3 then return frame.close(missing) end
frame.touch()
local removed, going = 0, {}
for n = 1, #ARGV - 2 do
  local q = queue.open(n, 6)
  if q then
    going[#going + 1] = q
    removed = removed + q.messages
    quota.add(q, -q.messages, -q.bytes)
    redis.call("HDEL", KEYS[4], ARGV[n + 2])
  end
end
reply = frame.close({ status.OK, "", 0, removed })
for n = 1, #going do
  local q = going[n]
  redis.call("UNLINK", q.q, q.a, q.l, q.m, q.s, q.t, q.i)
  ring.all(q)
  redis.call("UNLINK", q.w)
end
return reply
