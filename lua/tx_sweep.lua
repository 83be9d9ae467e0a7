-- Forget transactions whose lease is over. Each queue gives its messages back by itself (core/lapse).
-- MS-MQDMPR 3.1.4.5 Transaction Abort
--
-- KEYS message
-- RETURNS OK number of transactions forgotten
-- RETURNS CONTINUE number of transactions forgotten by this call; there may be more
-- FLAGS allow-oom
--- require "core/context"
--- require "transactions/txlog"
local reply = context.open()
if reply then return reply end
local lapsed, fields = {}, redis.call("HGETALL", KEYS[2])
for n = 1, #fields, 2 do
  local deadline, count = string.match(fields[n + 1], "^(%d+) %d+ (%d+) ")
  if deadline and not string.find(fields[n], ":", 1, true) and tonumber(deadline) <= context.now then
    lapsed[#lapsed + 1] = { id = fields[n], count = tonumber(count) }
    if #lapsed == 64 then break end
  end
end
for n = 1, #lapsed do txlog.forget(lapsed[n].id, lapsed[n].count) end
return context.close({ #lapsed == 64 and status.CONTINUE or status.OK, "", 0, #lapsed })
