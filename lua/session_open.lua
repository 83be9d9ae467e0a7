-- Open a session, or touch one; create the queue manager if the server does not have it yet.
-- MS-MQDMPR 3.1.1.1 QueueManager, 3.1.3 Initialization
--
-- CALLERS arrival in mqredis/drivers/attempt.py
-- KEYS admin
-- ARGV[3] schema  number this client writes
-- ARGV[4] ttl  ms a session may lie idle
-- ARGV[5] run_id  of the server process, "" unknown
-- ARGV[6] test  "1": a new manager may have its clock moved by hand
-- ARGV[7] incarnation  16 hex digits for a new manager; "" from a client that knows one: it must not be made anew
-- ARGV[8] session  number of a session to touch, "" to open one
-- ARGV[9] client  client text (core/session)
-- RETURNS OK session number, now in ms, "1" if the clock may be moved, terms (see core/session)
-- RETURNS SCHEMA_TOO_NEW
-- RETURNS SCHEMA_TOO_OLD
-- RETURNS SESSION_EXPIRED
-- RETURNS MANAGER_NOT_FOUND
-- FLAGS allow-oom
--- require "core/context"
--- require "core/session"
local kept = redis.call("HMGET", KEYS[1], "schema", "test", "run_id", "terms")
if not kept[1] then
  if ARGV[8] ~= "" or ARGV[7] == "" then return { status.MANAGER_NOT_FOUND, "", 0 } end
  -- What each call reads comes first: Redis finds it first, too.
  redis.call("HSET", KEYS[1], "config", "", "counters", "0 0 0 0 0", "schema", context.schema, "incarnation", ARGV[7],
    "clock", 0, "lead", 0, "quota_messages", "", "quota_bytes", "", "throttled", "0", "test", ARGV[6],
    "run_id", ARGV[5])
  context.save_config()
  kept = { context.schema, ARGV[6], ARGV[5] }
end
-- Here the field itself counts, and not what the manager's configuration text says of it.
if kept[1] ~= context.schema then redis.call("HDEL", KEYS[1], "config") end
local reply = context.open()
if reply then return reply end
session.sweep()
session.units()
-- Another server process than the last one may have lost the end of its log: ids that were issued then must never be
-- issued again, so the counter jumps; to where the clock says, since a jump that is lost itself must not be made again
-- to the same place. 4096 ids for each millisecond since 2025: that is 69 years in the exact range of a double.
if ARGV[5] ~= "" and kept[3] ~= ARGV[5] then
  if kept[3] ~= "" then context.seq = math.max(context.seq + 4294967296, (context.now - 1735689600000) * 4096) end
  kept[4] = session.term(kept[4] or "")
  redis.call("HSET", KEYS[1], "run_id", ARGV[5], "terms", kept[4])
  context.mark_changed()
end
local number, highest = ARGV[8], ""
if number == "" then
  number = string.format("%.0f", redis.call("HINCRBY", KEYS[1], "sessno", 1))
else
  local text = redis.call("HGET", KEYS[1], number)
  if not text then return context.close({ status.SESSION_EXPIRED }) end
  highest = string.match(text, "^%d+(.*)$")
end
context.mark_changed()
redis.call("HSET", KEYS[1], number, ARGV[4] .. highest, "client:" .. number, ARGV[9])
redis.call("ZADD", KEYS[5], context.now + tonumber(ARGV[4]), number)
return context.close({ status.OK, "", 0, number, context.now, kept[2], kept[4] or "" })
