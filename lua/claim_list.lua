-- The claims of data pipelines on a queue.
-- MS-MQDMPR 3.1.7.1.11 Dequeue Message Begin
--
-- KEYS message
-- QUEUE[1] the queue
-- RETURNS OK now in ms, then owner, "1" if its process is connected, text of each (claims/claim)
-- RETURNS QUEUE_NOT_FOUND
-- FLAGS no-writes
--- require "core/context"
--- require "core/queue"
--- require "claims/claim"
local reply = context.observe()
if reply then return reply end
local q = queue.read(1, 2)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end
reply = { status.OK, "", 0, context.now }
for _, owner in ipairs(claim.owners(q)) do
  local c = claim.open(q, owner)
  if c then
    reply[#reply + 1] = owner
    reply[#reply + 1] = claim.alive(c) and "1" or "0"
    reply[#reply + 1] = claim.format(c)
  end
end
return context.close(reply)
