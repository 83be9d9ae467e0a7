-- A data pipeline is done with every claim up to a sequence number: its messages are received, a page at a time.
-- MS-MQDMPR 3.1.7.1.12 Dequeue Message End
--
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] generation  of the queue
-- ARGV[4] owner  encoded
-- ARGV[5] lineage  which checkpoint of the owner
-- ARGV[6] claim_sequence  the last one that is done
-- RETURNS OK messages received by this call
-- RETURNS CONTINUE messages received by this call: call again
-- RETURNS LOCK_LOST why: foreign | released | open
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "lib/frame"
--- require "lib/queue"
--- require "lib/quota"
--- require "lib/due"
--- require "lib/position"
--- require "lib/claim"
--- require "lib/claim_plain"
--- require "lib/wake"
local reply = frame.open()
if reply then return reply end
local q = queue.open(1, 2)
if not q or q.generation ~= ARGV[3] then return frame.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.join(q, 2)
due.serve(q)

local function finish(code, what)
  quota.save(q)
  code = frame.close(frame.missing or { code, "", 0, what })
  wake.ring(q)
  return code
end
if frame.missing then return finish() end

-- decide -----------------------------------------------------------------------------------------
local c, seq = claim.open(q, ARGV[4]), tonumber(ARGV[6])
if not c or (c.lineage == ARGV[5] and seq <= c.committed) then return finish(status.OK, 0) end
local why = c.lineage ~= ARGV[5] and "foreign" or c.sealed == "2" and "released"
  or seq >= c.seq and c.sealed == "0" and "open"
if why then return finish(status.LOCK_LOST, why) end
if c.seq == c.committed or seq < c.seq then return finish(status.OK, 0) end

local done = claim_plain.finish(q, c)
if done == claim.run then return finish(status.CONTINUE, done) end
local function over(count)
  c.committed, c.count, c.bytes, c.since = c.seq, 0, 0, frame.stamp
  claim.save(q, c)
  return finish(status.OK, count)
end
if done then return over(done) end

local score, kept, purged = claim.score(c), {}, {}
local ids = redis.call("ZRANGEBYSCORE", q.l, score, score, "LIMIT", 0, claim.page)
local entries = position.read(q, ids)
for n = 1, #entries do
  local to = string.find(entries[n].st.kind, "P", 1, true) and purged or kept
  to[#to + 1] = entries[n]
end
position.may_leave(q, kept, "receive")
position.may_leave(q, purged, "queue_purged")
if frame.missing then return finish() end

-- apply ------------------------------------------------------------------------------------------
if #kept > 0 then position.finish(q, kept, "receive") end
if #purged > 0 then position.finish(q, purged, "queue_purged") end
if #ids == claim.page then return finish(status.CONTINUE, #ids) end
return over(#ids)
