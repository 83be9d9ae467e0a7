-- Carry out an action of an operator on available or delayed messages of a queue: those with these ids, or all that
-- match. One call changes some hundred messages; a message that came after the first call is not touched.
-- docs/operating.md
--
-- CALLERS bulk in mqredis/commands/bulk.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue; the target of a move; queues of their dead letters, copies and acknowledgements
-- KEYS the key of a token, if ARGV[3] is not "" (admin/operator)
-- ARGV[3] token  as in admin/operator
-- ARGV[4] entry  as in admin/operator
-- ARGV[5] action  count | delete | trash | restore | move | redrive | due | priority
-- ARGV[6] value  trash: how long in ms; move: encoded name of the target; redrive: the same, or "" for the queue of origin; due: ms
--   since the epoch, or "+" and ms from now; priority: a digit; count, delete: ""; restore: not used
-- ARGV[7] states  a available, d delayed, da both
-- ARGV[8] most  messages to change, "" any number
-- ARGV[9] progress  "" on the first call, then what CONTINUE said (admin/bulk_progress)
-- ARGV[10] filter  which messages match, "" all (matching/filter)
-- ARGV[11+] id  lookup ids, in place of a search
-- RETURNS OK messages changed or counted, locked ones among the ids, missing ones among the ids: by all calls together
-- RETURNS CONTINUE as OK, then the progress
-- RETURNS QUEUE_NOT_FOUND
-- RETURNS QUEUE_NOT_AVAILABLE the target of a move does not exist
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/seek"
--- require "core/store"
--- require "core/timers"
--- require lazy "admin/bulk_actions"
--- require "admin/bulk_progress"
--- require "admin/operator"
--- require "waiting/waiters"
-- Change together with: admin/bulk_actions, for another action; mqredis/operations/bulk.py, which makes action, value and states.
-- Tests: tests/operator/test_bulk.py, test_bulk_log.py, test_priority.py, test_trash.py.
local action, value, states, most, progress_text = ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8]), ARGV[9]
-- "\0" is the filter without a condition: a search goes through the whole queue with it.
local filter_text, lookup_ids = ARGV[10] ~= "" and ARGV[10] or "\0", operator.lookup_ids(11)
local page = 256 -- messages that one call changes at most
local reply = context.open()
if reply then return reply end
reply = operator.repeated()
if reply then return reply end
local q = queue.open(1)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end
queue.open_parent(q)
timers.serve(q)

-- Ends the script. Only a call that was carried out keeps its reply under the token: one that was refused is to run when it is
-- repeated after the cause is gone.
local function finish(answer)
  store.save(q)
  local carried_out = answer[1] == status.OK or answer[1] == status.CONTINUE
  if carried_out then answer = operator.close(answer) else answer = context.close(answer) end
  waiters.notify(q)
  return answer
end

if context.missing then return finish(context.missing) end

-- choose -----------------------------------------------------------------------------------------
local chosen = bulk_actions.all[action]
local is_first_call = progress_text == ""
local progress
if is_first_call then
  local due = 0
  if action == "due" then
    -- As broker time: "+5000" is read as a number; other times are as users see them.
    due = string.sub(value, 1, 1) == "+" and context.now + value or value + context.lead
  end
  progress = bulk_progress.new(states, due)
else
  progress = bulk_progress.parse(progress_text)
end
if action == "due" then value = progress.due end -- the time is that of the first call
local found, place
if lookup_ids[1] then
  found = bulk_progress.by_ids(q, lookup_ids, states, progress)
else
  local count = most and math.min(page, most - progress.changed) or page
  found, place = bulk_progress.by_filter(q, filter_text, states, progress, count)
end
local entries = { nil }
for n = 1, #found do
  local entry = found[n]
  local is_newer = string.sub(entry.id, 3) > progress.newest
  local is_left_out = is_newer or chosen.is_done and chosen.is_done(entry, value) or seek.expired(entry)
  if not is_left_out then entries[#entries + 1] = entry end
end

-- decide -----------------------------------------------------------------------------------------
local plan, refusal = chosen.plan(q, entries, value)
if refusal then return finish({ refusal }) end
operator.plan()
if context.missing then return finish(context.missing) end

-- apply ------------------------------------------------------------------------------------------
local count = chosen.apply(q, entries, value, plan) or #entries
progress.changed = progress.changed + count
local more = place and not (most and progress.changed >= most)
if count > 0 or is_first_call or not more then -- else the entry would say what it says already
  progress.log_entry = operator.log(progress.changed, not more, progress.log_entry) or ""
end
reply = context.reply(more and status.CONTINUE or status.OK, progress.changed, progress.locked, progress.missing)
if more then
  progress.place = place
  reply[7] = bulk_progress.format(progress)
end
return finish(reply)
