-- Open a session, or touch one; create the queue manager if the server does not have it yet.
-- MS-MQDMPR 3.1.1.1 QueueManager, 3.1.3 Initialization
--
-- CALLERS opening_call in mqredis/drivers/attempt.py
-- KEYS admin
-- ARGV[3] ttl  ms a session may lie idle
-- ARGV[4] run_id  of the server process, "" unknown
-- ARGV[5] test  "1": a new manager may have its clock moved by hand
-- ARGV[6] incarnation  16 hex digits for a new manager; "" from a client that knows one: it must not be made anew
-- ARGV[7] session  number of a session to touch, "" to open one
-- ARGV[8] client  client text (core/session)
-- RETURNS OK session number, terms (session.term in core/session)
-- RETURNS SCHEMA_TOO_NEW
-- RETURNS SCHEMA_TOO_OLD
-- RETURNS SESSION_EXPIRED
-- RETURNS MANAGER_NOT_FOUND
-- FLAGS allow-oom
--- require "core/context"
--- require "core/manager_config"
--- require "core/session"
-- Change together with: core/manager_config, for another property of the manager; session_arguments in
-- mqredis/commands/manager.py, which writes the arguments; mqredis/drivers/core.py, which takes over the reply;
-- tests/drivers/kit.py, whose own session_open takes the same arguments; context.parse_session, for the text of a session.
-- Tests: tests/drivers/test_calls.py, tests/client/test_rollback.py.
local meta, idle, ttl, run_id, test, new_incarnation = KEYS[1], KEYS[5], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local touched_session, client_text = ARGV[7], ARGV[8]

-- The manager, which is created if it does not exist. A call that creates one is not refused below.
local stored = redis.call("HMGET", meta, "schema", "run_id", "terms")
local schema, stored_run_id, terms = stored[1], stored[2], stored[3] or ""
if not schema then
  if touched_session ~= "" or new_incarnation == "" then return { status.MANAGER_NOT_FOUND, "", 0 } end
  -- What each call reads comes first: Redis finds it first, too.
  redis.call("HSET", meta, "config", "", "counters", "0 0 0 0 0", "schema", manager_config.schema,
    "incarnation", new_incarnation, "clock", 0, "lead", 0, "quota_messages", "", "quota_bytes", "", "throttled", "0",
    "test", test, "run_id", run_id)
  manager_config.save()
  schema, stored_run_id = manager_config.schema, run_id
end
-- Here the field itself counts, and not what the manager's configuration text says of it.
if schema ~= manager_config.schema then redis.call("HDEL", meta, "config") end
local reply = context.open()
if reply then return reply end

-- Another server process than the last one may have lost the end of its log: ids that were given out then must never be
-- given out again. So the counter jumps: to where the clock says, since a jump that is lost itself must not be made again to
-- the same place. 4096 ids for each millisecond since 2025 are 69 years in the exact range of a double.
local least_jump, start_of_2025, ids_per_ms = 4294967296, 1735689600000, 4096
if run_id ~= "" and stored_run_id ~= run_id then
  if stored_run_id ~= "" then
    context.seq = math.max(context.seq + least_jump, (context.now - start_of_2025) * ids_per_ms)
  end
  -- Before any change of this call: those under the former term have at most this history number.
  terms = session.term(terms)
  redis.call("HSET", meta, "run_id", run_id, "terms", terms)
end
context.mark_changed() -- even if the session is gone, since the jump must be stored
session.sweep() -- may drop the session that is to be touched: its time is over, and its client opens another one
session.sweep_transactions()

-- The session: a new one, or that which is touched, which keeps its highest slot (core/session).
local number, highest = touched_session, ""
if number == "" then
  number = string.format("%.0f", redis.call("HINCRBY", meta, "sessno", 1))
else
  local text = redis.call("HGET", meta, number)
  if not text then return context.close({ status.SESSION_EXPIRED }) end
  highest = string.match(text, "^%d+(.*)$") -- with the space before it
end
redis.call("HSET", meta, number, ttl .. highest, "client:" .. number, client_text)
redis.call("ZADD", idle, context.now + ttl, number)
return context.close(context.reply(status.OK, number, terms))
