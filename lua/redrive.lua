-- Put dead letters (or journal copies) back into the queue they came from, as new messages. What a message asked for
-- is in force again, and its times count anew; only its dedup key is not taken a second time.
-- docs/semantics.md, "Beyond MSMQ"
--
-- KEYS message
-- QUEUE[1] the queue they are in
-- QUEUE[2+] the parent of a subqueue; the queues they go to
-- ARGV[3] generation  of the queue behind the handle
-- ARGV[4] target  encoded name of another queue than the original one, "" none
-- ARGV[5+] id  lookup ids
-- RETURNS OK how many went, how many stayed (locked, without an origin, refused there), last SequentialID before
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
--- require "core/context"
--- require "core/queue"
--- require "core/timers"
--- require "core/position"
--- require "core/record"
--- require "features/other_queues"
--- require "features/copy"
--- require lazy "features/trace"
--- require "waiting/waiters"
--- require "core/store"
local reply = context.open()
if reply then return reply end
local q = queue.open(1, 2)
if not q or q.generation ~= ARGV[3] then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.open_parent(q, 2)
timers.serve(q, true)

-- decide -----------------------------------------------------------------------------------------
local entries = position.read(q, { unpack(ARGV, 5) })
local targets = {}
trace.load()
for n = 1, #entries do
  local origin = copy.origin(q, entries[n])
  local name = ARGV[4] ~= "" and ARGV[4] or origin and other_queues.encode(string.match(origin, "^[^;]*"))
  targets[n] = name and redis.call("ZSCORE", q.a, entries[n].lid) and other_queues.find(name)
  if targets[n] then -- one that expires at once leaves traces there
    local rec = context.now_text .. "1" .. (copy.awake(targets[n], entries[n])) .. "\0"
    trace.expiring(targets[n], { { lid = entries[n].lid, rec = rec } })
  end
end
if context.missing then
  store.save(q)
  reply = context.close(context.missing)
  waiters.notify(q)
  return reply
end

-- apply ------------------------------------------------------------------------------------------
local went, last = 0, string.format("%014x", context.seq)
for n = 1, #entries do
  local to = targets[n]
  if to and to ~= q and not queue.has(to, "p") and not queue.has(to, "f") then
    -- It leaves one queue of the manager for another, so the manager's quota has room for it; out of a subqueue that of
    -- its parent, too.
    local size, home = position.size(q, entries[n]), q.parent == to and not q.apart and to or {}
    if home == to then queue.read_subqueue_totals(to) end
    context.messages, context.bytes = context.messages - 1, context.bytes - size
    home.sub_messages, home.sub_bytes = (home.sub_messages or 0) - 1, (home.sub_bytes or 0) - size
    local lid = copy.revive(q, to, entries[n])
    context.messages, context.bytes = context.messages + 1, context.bytes + size
    home.sub_messages, home.sub_bytes = home.sub_messages + 1, home.sub_bytes + size
    if lid then
      went = went + 1
      position.delete(q, { entries[n] }, "redriven")
    end
  end
end
store.save(q)
reply = context.close({ status.OK, "", 0, went, #ARGV - 4 - went, last })
waiters.notify(q)
return reply
