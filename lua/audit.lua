-- Show what the store holds, for the doctor, page by page. Changes nothing but the form of packed locks.
-- MS-MQDMPR 3.1.1 Abstract Data Model
--
-- CALLERS audit in mqredis/commands/doctor.py
-- KEYS admin
-- QUEUE[1+] queues to look at
-- ARGV[3] place  "+<n> 0" in the first call with these keys, to begin at the n-th one; then what the call before has returned
-- ARGV[4] budget  elements of this call, roughly
-- RETURNS OK place of the next call, "" if all is read; now in ms; history; then rows (admin/audit)
-- RETURNS MANAGER_NOT_FOUND
-- FLAGS allow-oom
--- require "core/context"
--- require "admin/audit"
-- Change together with: admin/audit, which describes the rows, and mqredis/operations/doctor/snapshot.py, which reads them.
-- Tests: tests/doctor/test_doctor.py, test_planted_faults.py.
local place, budget = ARGV[3], tonumber(ARGV[4])

-- In place of context.open and context.close: a manager whose own fields are damaged must still be shown.
context.reset()
local meta = redis.call("HMGET", KEYS[1], "schema", "incarnation", "counters", "clock", "lead")
local schema, incarnation, counters, clock, lead = meta[1], meta[2], meta[3], meta[4], meta[5]
if not schema then return { status.MANAGER_NOT_FOUND, "", 0 } end
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000) + (tonumber(clock or "") or 0) + (tonumber(lead or "") or 0)
local history = tonumber(string.match(counters or "", "^%d+")) or 0
local reply = { status.OK, incarnation or "", history, "", now, history } -- the fourth element is set at the end

local plus, at, cursor = string.match(place, "^(%+?)(%d+) (%d+)$")
if plus == "+" then audit.keys(reply) end
at = tonumber(at)
local left = budget
while at <= #KEYS and left > 0 do
  local seen
  cursor, seen = audit.page(reply, at, cursor, math.min(budget, 500))
  left = left - seen - 1
  if cursor == "0" then at = at + 1 end
end
if at <= #KEYS then reply[4] = at .. " " .. cursor end
return reply
