-- Remove every available or delayed message of a queue, and have the locked ones removed when their locks end.
-- MS-MQDMPR 3.1.7.1.7 Purge Queue
--
-- CALLERS purge in mqredis/commands/contents.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] generation  of the queue behind the handle
-- ARGV[4] limit  "" on the first call; then what CONTINUE said: the last SequentialID to remove, so that what came later
--   stays, and the id behind which a search goes on
-- ARGV[5] filter  which messages match, "" all (matching/filter); what is locked or delayed stays then
-- RETURNS OK number of messages removed by this call
-- RETURNS CONTINUE number of messages removed by this call, limit for the next one
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/timers"
--- require "admin/sweep"
--- require "core/removal"
--- require lazy "matching/search"
--- require "waiting/waiters"
-- Change together with: admin/sweep, which removes whole queues; claims/loosen and core/release, for what is locked.
-- Tests: tests/conformance/test_purge.py, tests/matching/test_purges.py; delayed messages: tests/reliability/test_calls.py.
local generation, limit_text, filter_text = ARGV[3], ARGV[4], ARGV[5]
local reply = context.open()
if reply then return reply end
local q = queue.open(1)
if not q or q.generation ~= generation then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.open_parent(q)
timers.serve(q)
if context.missing then return waiters.finish(q, context.missing) end

local is_first_call = limit_text == ""
local limit, place = string.match(limit_text, "^(%x*) ?(%x*)$") -- place: "" to search from the front
if is_first_call then limit = context.last_sequential() end

-- Removes a page of the available messages that match the filter. Returns how many, and the id behind which the search goes on,
-- nil if it is complete.
local function purge_matching()
  local entries, further = search.read_page(q, filter_text, place, sweep.page)
  local old = {}
  for n = 1, #entries do
    if string.sub(entries[n].id, 3) <= limit then old[#old + 1] = entries[n] end
  end
  if not removal.plan(q, old, "queue_purged") then return end -- it needs more keys: the script ends below
  removal.delete(q, old, "queue_purged")
  return #old, further
end

local removed, next_limit -- next_limit: nil if nothing is left
if filter_text ~= "" then
  removed, place = purge_matching()
  next_limit = place and limit .. " " .. place
else
  -- Writes before removal.plan has asked for keys: marks may be set twice, so the repeated call does no harm.
  if is_first_call then sweep.mark_locked(q) end
  local more
  removed, more = sweep.purge(q, limit)
  next_limit = more and limit or nil
end
if context.missing then return waiters.finish(q, context.missing) end
return waiters.finish(q, context.reply(next_limit and status.CONTINUE or status.OK, removed, next_limit))
