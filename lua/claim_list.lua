-- The readers of data pipelines on a queue, with the claim of each.
-- MS-MQDMPR 3.1.7.1.11 Dequeue Message Begin
--
-- CALLERS listing in mqredis/commands/claims.py
-- KEYS message
-- QUEUE[1] the queue
-- RETURNS OK the lead of the broker's clock in ms (core/context), then for each: owner, "1" if its process is connected,
--   text (claims/claims), how many messages its present claim holds, and how many of a committed one are not removed yet
-- RETURNS QUEUE_NOT_FOUND
-- FLAGS no-writes
--- require "core/context"
--- require "core/queue"
--- require "claims/claims"
--- require "claims/claim_pages"
-- Change together with: `listing` in mqredis/commands/claims.py, which takes five elements for each.
-- Tests: tests/client/test_claims.py.
local reply = context.observe()
if reply then return reply end
local q = queue.read(1)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end
reply = context.reply(status.OK, context.lead)
for _, claim in ipairs(claims.all(q)) do
  -- Until the next claim begins, the committed one has the number of the present one.
  local held = claim.number ~= claim.draining and claim_pages.held(q, claim.number) or 0
  local removing = claim.draining and claim_pages.held(q, claim.draining) or 0
  context.append(reply, claim.owner, claims.alive(claim) and "1" or "0", claims.format(claim), held, removing)
end
return context.close(reply)
