-- Remove every available message of a queue, and have the locked ones removed when their reader gives them back.
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
--- require "core/position"
--- require lazy "matching/search"
--- require "waiting/waiters"
local reply = context.open()
if reply then return reply end
local q = queue.open(1, 2)
if not q or q.generation ~= ARGV[3] then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.open_parent(q, 2)
timers.serve(q)
local limit, place = string.match(ARGV[4], "^(%x*) ?(%x*)$")
if limit == "" then limit = string.format("%014x", tonumber(context.seq)) end
local removed, more

-- Those that match, of as many as one call looks at.
local function some()
  search.load()
  local entries, on = search.look(q, ARGV[5], place, sweep.page)
  local old = {}
  for n = 1, #entries do
    if string.sub(entries[n].lid, 3) <= limit then old[#old + 1] = entries[n] end
  end
  if not position.may_leave(q, old, "queue_purged") then return end
  position.delete(q, old, "queue_purged")
  more = #entries > 0 and entries[#entries].lid or on
  limit = more and limit .. " " .. more or limit
  return #old
end

if not context.missing then
  if ARGV[5] ~= "" then
    removed = some()
  else
    if ARGV[4] == "" then sweep.mark_locked(q) end
    removed, more = sweep.purge(q, limit, "queue_purged")
  end
end
return waiters.finish(q, context.missing or { more and status.CONTINUE or status.OK, "", 0, removed, limit })
