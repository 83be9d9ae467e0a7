-- The heartbeat of a worker: stores its record, and returns the commands of operators.
-- docs/operating.md
--
-- CALLERS beat in mqredis/commands/workers.py
-- KEYS message
-- KEYS workers (admin/workers)
-- ARGV[3] id  of the worker
-- ARGV[4] lease  ms after which the worker counts as dead; 0: it stops now, and its record is deleted
-- ARGV[5] first  "1" in the first call of a worker, else "0"
-- ARGV[6] record  what the worker says of itself, as JSON
-- ARGV[7+] target  "q:" and a queue, or "c:" and a consumer: is it paused?
-- RETURNS OK commands for this worker, one per line, "" none; then for each target "1" (paused) or "0"
--- require "core/context"
--- require "admin/workers"
-- Change together with: mqredis/worker/heartbeat.py, which makes the record and carries out the commands (admin/workers).
-- Tests: tests/operator/test_workers.py.
local key, id, lease, first, record = KEYS[3], ARGV[3], tonumber(ARGV[4]), ARGV[5] == "1", ARGV[6]
local targets = { unpack(ARGV, 7) }
local reply = context.open()
if reply then return reply end
context.mark_changed()
if first then workers.sweep(key) end -- of workers that were killed
local orders = workers.take_orders(key, id)
if lease > 0 then workers.save(key, id, lease, record) else workers.remove(key, id) end
reply = context.reply(status.OK, orders)
local pauses = targets[1] and redis.call("HMGET", key, unpack(targets)) or {}
for n = 1, #targets do reply[n + 4] = pauses[n] and "1" or "0" end
return context.close(reply)
