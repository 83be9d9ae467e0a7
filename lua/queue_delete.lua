-- Delete a queue with its subqueues and everything in them, locked or not. Readers that wait on it are notified at once.
-- MS-MQDMPR 3.1.7.1.4 Delete Queue
--
-- CALLERS delete in mqredis/commands/queues.py
-- KEYS admin
-- QUEUE[1] the queue
-- QUEUE[2+] its subqueues, then the queues of their dead letters, copies and acknowledgements
-- ARGV[3+] name  of each queue to delete, as written
-- RETURNS OK number of messages that went with it
-- RETURNS QUEUE_NOT_FOUND
-- RETURNS CONTINUE number of messages that went in this call
-- RETURNS KEYS_CHANGED encoded names of subqueues and others that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/handle"
--- require "core/removal"
--- require "core/timers"
--- require "features/other_queues"
--- require "admin/sweep"
--- require "claims/claims"
--- require lazy "claims/drain"
--- require "waiting/waiters"
--- require "waiting/notify"
--- require "core/store"
-- Change together with: queue_close.lua, which deletes an empty subqueue in the same steps. What is stored of a queue outside of
-- its keys goes in the part `delete`; queue.open has taken the texts of its locks out of meta. Its trails go with time
-- (features/trail_store), and its subscriptions stay until they are ended (subscribe.lua). Tests: tests/conformance/test_delete.py.
local queues, names = KEYS[3], { nil }
for n = 3, #ARGV do names[n - 2] = ARGV[n] end
local reply = context.open()
if reply then return reply end
local first = other_queues.find(queue.nth_name(1, queue.admin_keys))
if not first then return context.close({ status.QUEUE_NOT_FOUND }) end
if #names == 1 then queue.open_parent(first, queue.admin_keys) end -- it may be a subqueue that is deleted alone

-- decide -----------------------------------------------------------------------------------------
-- going: the queues to delete. What leaves a subqueue is counted in the queue, since the client may not make all calls.
local going = other_queues.family(first)
if context.missing then return context.close(context.missing) end
-- Messages whose time is over have expired, and are not deleted with their queue.
for n = 1, #going do timers.serve(going[n]) end
if context.missing then return waiters.finish(first, context.missing) end

-- remove a page ----------------------------------------------------------------------------------
-- Messages that asked for something leave one by one, with their traces, before the rest goes at once: a page in each call, first
-- what a claim has received, for it was received.

-- Returns a claim that is committed, and whose messages are not all removed yet; nil if there is none.
local function draining_claim(q)
  for _, claim in ipairs(claims.all(q)) do
    if claim.draining then return claim end
  end
end

-- Removes a page of messages of such a claim. Returns how many, nil if context.missing names queues that this takes.
local function drain_page(q, claim)
  local count = drain.page(q, claim)
  if not claim.draining then claims.save(q, claim) end
  return count
end

-- Removes a page of other messages. Returns how many, nil if context.missing names queues that this takes.
local function sweep_page(q)
  local entries = sweep.next_page(q)
  if not removal.plan(q, entries, "queue_deleted") then return end
  removal.delete(q, entries, "queue_deleted")
  return #entries
end

for n = 1, #going do
  local q = going[n]
  if q.has_special then
    local claim = draining_claim(q)
    local count
    if claim then count = drain_page(q, claim) else count = sweep_page(q) end
    if not count then return waiters.finish(q, context.missing) end
    if claim or count > 0 then return waiters.finish(q, context.reply(status.CONTINUE, count)) end
  end
end

-- delete -----------------------------------------------------------------------------------------
context.mark_changed()
local removed = 0
for n = 1, #going do
  local q = going[n]
  removed = removed + q.messages
  store.count(q, -q.messages, -q.bytes)
  store.save(q)
end
-- Also of a subqueue that is gone by now: queue_close.lua deletes empty ones.
for n = 1, #names do redis.call("HDEL", queues, names[n]) end
reply = context.close(context.reply(status.OK, removed))
for n = 1, #going do
  local q = going[n]
  store.delete_queue(q)
  queue.forget(q)
  -- A queue of this name that is created later has nothing to do with the handles on this one.
  handle.remove_all(queue.name(q))
  notify.all(q)
  redis.call("UNLINK", q.waiters)
  context.sides[queue.name(q)] = nil -- its readers are notified
end
waiters.notify_sides()
return reply
