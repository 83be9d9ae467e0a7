-- Lookup ids of a part of a sealed claim that is held. A part that could be incomplete is refused.
-- MS-MQDMPR 3.1.7.1.11 Dequeue Message Begin
--
-- CALLERS read in mqredis/commands/claims.py
-- KEYS message
-- QUEUE[1] the queue
-- ARGV[3] generation  of the queue
-- ARGV[4] owner  encoded
-- ARGV[5] lineage  which checkpoint of the owner
-- ARGV[6] claim_sequence  of the claim
-- ARGV[7] offset  of the first id, from 0
-- ARGV[8] count  ids at most; up to 7,000, since unpack has a limit (MAX_FETCH_SIZE in mqredis/spark/options.py)
-- RETURNS OK texts, each of one or more ids with 16 digits, nothing between them
-- RETURNS LOCK_LOST why: foreign | released | stale | fenced | open | gap
-- RETURNS QUEUE_NOT_AVAILABLE
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "claims/claims"
--- require "claims/claimed_ids"
-- Change together with: WHY in mqredis/commands/claims.py, which explains each word of LOCK_LOST to users.
-- Tests: tests/client/test_claims.py, tests/property/test_pages.py.
local generation, owner, lineage, seq = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local offset, count = tonumber(ARGV[7]), tonumber(ARGV[8])
local reply = context.open()
if reply then return reply end
local q = queue.open(1)
if not q or q.generation ~= generation then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
local claim = claims.open(q, owner)
-- "gap" has three causes: the owner has no claim; its claim is an earlier one; or a part of the claim is missing.
local function lost(why) return context.close(context.reply(status.LOCK_LOST, why)) end
if not claim then return lost("gap") end
local why = claims.refuses(claim, lineage, seq)
if why then return lost(why) end
if seq > claim.seq then return lost("gap") end
if claim.sealed == claims.filling then return lost("open") end
local texts = claimed_ids.read(q, claim, offset, count)
if not texts then return lost("gap") end
return context.close(context.reply(status.OK, unpack(texts)))
