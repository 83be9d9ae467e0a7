-- An operator begins an action that other calls carry out, or has ended it: the log gets an entry. An action begins once for
-- its token; a later call learns what came of it.
-- docs/operating.md
--
-- CALLERS record in mqredis/commands/actions.py
-- KEYS message
-- QUEUE[1+] the log of actions (admin/operator)
-- KEYS the key of the token (admin/operator)
-- ARGV[3] token  as in admin/operator, never ""
-- ARGV[4] entry  as in admin/operator
-- ARGV[5] outcome  "" if the action begins, else JSON: what came of it
-- ARGV[6] changed  how many messages it has changed
-- RETURNS OK "1" if the action begins or ends now, "0" if it had begun before; then its outcome, "" if it has not ended
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "admin/operator"
-- Change together with: begin and end in mqredis/operations/actions.py, whose calls have the same token.
-- Tests: tests/operator/test_record.py.
local outcome, changed = ARGV[5], ARGV[6]
local reply = context.open()
if reply then return reply end
if outcome == "" then -- an end always runs: until then its token keeps the reply of the beginning
  reply = operator.repeated()
  if reply then return reply end
end

-- decide -----------------------------------------------------------------------------------------
operator.plan()
if context.missing then return context.close(context.missing) end

-- apply ------------------------------------------------------------------------------------------
context.mark_changed()
operator.log(changed, outcome ~= "")
-- The token keeps the second reply, for a beginning that comes again.
return operator.finish(context.reply(status.OK, "1", outcome), context.reply(status.OK, "0", outcome))
