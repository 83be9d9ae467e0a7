-- Send a command to one worker, or set or end a pause of a queue or consumer for all workers.
-- docs/operating.md
--
-- CALLERS order in mqredis/commands/workers.py
-- KEYS message
-- QUEUE[1+] the log of actions (admin/operator)
-- KEYS workers (admin/workers), then the key of a token, if ARGV[3] is not "" (admin/operator)
-- ARGV[3] token  as in admin/operator
-- ARGV[4] entry  as in admin/operator
-- ARGV[5] field  of the hash: "o:", "q:" or "c:" and a name
-- ARGV[6] text  o: the command; q: and c: JSON of the pause, "" to end it
-- RETURNS OK "1": done; "0": no such live worker, or no such pause
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
--- require "core/context"
--- require "admin/operator"
--- require "admin/workers"
-- Change together with: mqredis/operations/workers.py, which makes field and text. Tests: tests/operator/test_workers.py.
local key = KEYS[operator.last_key()]
local field, text = ARGV[5], ARGV[6]
local reply = context.open()
if reply then return reply end
reply = operator.repeated()
if reply then return reply end

-- decide -----------------------------------------------------------------------------------------
local worker, known = string.match(field, "^o:(.*)$"), true -- worker: nil if the call sets or ends a pause
if worker then
  known = workers.is_alive(key, worker)
elseif text == "" then
  known = redis.call("HEXISTS", key, field) == 1
end
-- The token keeps this reply, too: a late repetition must not end a pause that was set meanwhile.
if not known then return operator.close(context.reply(status.OK, "0")) end
operator.plan()
if context.missing then return context.close(context.missing) end

-- apply ------------------------------------------------------------------------------------------
if worker then
  workers.add_order(key, worker, text)
elseif text == "" then
  redis.call("HDEL", key, field)
else
  workers.pause(key, field, text)
end
operator.log(1, true)
return operator.finish(context.reply(status.OK, "1"))
