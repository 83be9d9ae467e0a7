-- Ids of a part of a sealed claim. Only while it is held: a part that could be incomplete is refused.
-- MS-MQDMPR 3.1.7.1.11 Dequeue Message Begin
--
-- KEYS message
-- QUEUE[1] the queue
-- ARGV[3] generation  of the queue
-- ARGV[4] owner  encoded
-- ARGV[5] lineage  which checkpoint of the owner
-- ARGV[6] claim_sequence  of the claim
-- ARGV[7] offset  of the first id, from 0
-- ARGV[8] count  ids at most
-- RETURNS OK texts of ids, 16 digits each, nothing between them
-- RETURNS LOCK_LOST why: foreign | released | stale | fenced | open | gap
-- RETURNS QUEUE_NOT_AVAILABLE
--- require "core/context"
--- require "core/queue"
--- require "claims/claim"
--- require "claims/claim_pages"
local reply = context.open()
if reply then return reply end
local q = queue.open(1, 2)
if not q or q.generation ~= ARGV[3] then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
local c, seq = claim.open(q, ARGV[4]), tonumber(ARGV[6])
local why = not c and "gap" or claim.refuses(c, ARGV[5], seq) or seq > c.seq and "gap" or c.sealed == "0" and "open"
if why then return context.close({ status.LOCK_LOST, "", 0, why }) end
local offset = tonumber(ARGV[7])
local texts = claim_pages.read(q, c, offset, math.max(0, math.min(tonumber(ARGV[8]), c.count - offset)))
if not texts then return context.close({ status.LOCK_LOST, "", 0, "gap" }) end
return context.close({ status.OK, "", 0, unpack(texts) })
