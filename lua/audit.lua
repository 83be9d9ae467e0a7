-- Show what the store holds, for the doctor, page by page. Changes nothing but the form of packed locks.
-- MS-MQDMPR 3.1.1 Abstract Data Model
--
-- CALLERS audit in mqredis/commands/doctor.py
-- KEYS admin
-- QUEUE[1+] queues to look at
-- ARGV[3] place  "" to begin, "+n 0" to begin at the n-th key, else the place that the last call answered
-- ARGV[4] budget  elements of this call, roughly
-- RETURNS OK place of the next call or "", now in ms, history, then rows (admin/audit)
-- RETURNS MANAGER_NOT_FOUND
-- FLAGS allow-oom
--- require "core/context"
--- require "admin/audit"
-- Change together with: admin/audit, which describes the rows, and mqredis/operations/doctor/snapshot.py, which reads them.
-- Not context.open: a manager whose own fields are damaged must still be shown.
context.reset()
local meta = redis.call("HMGET", KEYS[1], "schema", "incarnation", "counters", "clock", "lead")
if not meta[1] then return { status.MANAGER_NOT_FOUND, "", 0 } end
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000) + (tonumber(meta[4] or "") or 0)
  + (tonumber(meta[5] or "") or 0)
local history = tonumber(string.match(meta[3] or "", "^%d+")) or 0
local reply = { status.OK, meta[2] or "", history, "", now, history }
local at, cursor = string.match(ARGV[3], "^%+?(%d+) (%d+)$")
at, cursor = tonumber(at or 1), cursor or "0"
if ARGV[3] == "" or string.sub(ARGV[3], 1, 1) == "+" then audit.keys(reply) end
local budget, left = tonumber(ARGV[4]), tonumber(ARGV[4])
while at <= #KEYS and left > 0 do
  local seen
  cursor, seen = audit.page(reply, at, cursor, math.min(budget, 500))
  left = left - seen - 1
  if cursor == "0" then at = at + 1 end
end
if at <= #KEYS then reply[4] = at .. " " .. cursor end
return reply
