-- A worker says that it lives and what it does, and learns what operators want of it.
-- docs/operating.md
--
-- KEYS message
-- KEYS workers (admin/workers)
-- ARGV[3] id  of the worker
-- ARGV[4] lease  ms until the worker counts as gone; 0: it ends now
-- ARGV[5] begins  "1" at the first call of a worker, else "0"
-- ARGV[6] record  JSON
-- ARGV[7+] pause  "q:" and a queue, or "c:" and a consumer, that the worker asks about
-- RETURNS OK orders, one a line; then for each pause "1" or "0"
--- require "core/context"
--- require "admin/workers"
local key, id, lease, begins, text, pauses = KEYS[3], ARGV[3], ARGV[4] + 0, ARGV[5] == "1", ARGV[6], { unpack(ARGV, 7) }
local reply = context.open()
if reply then return reply end
context.mark_changed()
if begins then workers.sweep(key) end
local orders = redis.call("HGET", key, "o:" .. id) or ""
if orders ~= "" then redis.call("HDEL", key, "o:" .. id) end
if lease > 0 then
  redis.call("HSET", key, "w:" .. id, string.format("%.0f ", context.now + lease) .. text)
else
  redis.call("HDEL", key, "w:" .. id)
end
reply = { status.OK, "", 0, orders }
local found = pauses[1] and redis.call("HMGET", key, unpack(pauses)) or {}
for n = 1, #pauses do reply[n + 4] = found[n] and "1" or "0" end
return context.close(reply)
