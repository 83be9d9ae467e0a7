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
--- require "core/frame"
--- require "core/queue"
--- require "core/quota"
--- require "core/due"
--- require "core/position"
--- require "core/record"
--- require "features/side"
--- require "features/copy"
--- require lazy "features/trace"
--- require "waiting/wake"
local reply = frame.open()
if reply then return reply end
local q = queue.open(1, 2)
if not q or q.generation ~= ARGV[3] then return frame.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.join(q, 2)
due.serve(q, true)

-- decide -----------------------------------------------------------------------------------------
local entries = position.read(q, { unpack(ARGV, 5) })
local targets = {}
trace.load()
for n = 1, #entries do
  local origin = record.field(entries[n].rec, "O")
  local name = ARGV[4] ~= "" and ARGV[4] or origin and side.encode(string.match(origin, "^[^;]*"))
  targets[n] = name and redis.call("ZSCORE", q.a, entries[n].lid) and side.find(name)
  if targets[n] then -- one that expires at once leaves traces there
    local rec = frame.stamp .. "1" .. (copy.awake(targets[n], entries[n])) .. "\0"
    trace.expiring(targets[n], { { lid = entries[n].lid, rec = rec } })
  end
end
if frame.missing then
  quota.save(q)
  reply = frame.close(frame.missing)
  wake.ring(q)
  return reply
end

-- apply ------------------------------------------------------------------------------------------
local went, last = 0, string.format("%014x", frame.seq)
for n = 1, #entries do
  local to = targets[n]
  if to and to ~= q and not queue.is(to, "p") and not queue.is(to, "f") then
    -- It leaves one queue of the manager for another, so the manager's quota has room for it; out of a subqueue that of
    -- its parent, too.
    local size, home = position.size(q, entries[n]), q.parent == to and to or {}
    if home == to then queue.below(to) end
    frame.messages, frame.bytes = frame.messages - 1, frame.bytes - size
    home.sub_messages, home.sub_bytes = (home.sub_messages or 0) - 1, (home.sub_bytes or 0) - size
    local lid = copy.revive(q, to, entries[n])
    frame.messages, frame.bytes = frame.messages + 1, frame.bytes + size
    home.sub_messages, home.sub_bytes = home.sub_messages + 1, home.sub_bytes + size
    if lid then
      went = went + 1
      position.delete(q, { entries[n] }, "redriven")
    end
  end
end
quota.save(q)
reply = frame.close({ status.OK, "", 0, went, #ARGV - 4 - went, last })
wake.ring(q)
return reply
