-- Sessions, a page at a time.
-- MS-MQDMPR 3.1.1.1 QueueManager
--
-- CALLERS sessions in mqredis/commands/inspection.py
-- KEYS admin
-- ARGV[3] count  sessions at most; a page ends early if its sessions use many slots
-- ARGV[4] score  in `idle` (core/session), of the last session of the page before; "" for the first page
-- ARGV[5] number  of that session
-- RETURNS OK "1" if there are more sessions, else "0"; then of each: number, score in `idle`, when it was used last in ms (0 if
--   none of its first slots says), time to live in ms, client text (core/session)
-- FLAGS no-writes
--- require "core/context"
--- require "core/session"
--- require "admin/ordered"
-- Change together with: `sessions` in mqredis/commands/inspection.py, which takes five elements for each.
-- Tests: tests/inspection/test_holders.py.
local idle, count, score, number = KEYS[5], ARGV[3] + 0, ARGV[4], ARGV[5]
local reply = context.observe()
if reply then return reply end
-- rows: number, score, number, score, ..., of one session more than the page shows, to know whether there are more; left: slots
-- that this page may still ask.
local rows, left = ordered.page(idle, score, number, count + 1), session.slots_per_page
reply = context.reply(status.OK, "0")
for n = 1, #rows, 2 do
  if left <= 0 or n > count * 2 then
    reply[4] = "1"
    break
  end
  local used, ttl, slots = session.used(rows[n], true)
  left = left - slots
  context.append(reply, rows[n], string.format("%.0f", rows[n + 1]), used > 0 and context.shown(used) or 0, ttl,
    redis.call("HGET", KEYS[1], "client:" .. rows[n]) or "")
end
return context.close(reply)
