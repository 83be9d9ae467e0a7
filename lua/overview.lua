-- What is in each of these queues and passes through them, from counters alone. Changes nothing and serves no timers.
-- MS-MQDMPR 3.1.1.2 Queue
--
-- CALLERS overview in mqredis/commands/inspection.py
-- KEYS message
-- QUEUE[1+] the queues
-- RETURNS OK now in ms, then for each of the first queues (the others are for the next call): "" if there is none, else a text of
--   numbers and its flags: messages, bytes with those in ;retry and ;lapsed, gone, ready, locked, claimed, waiters, "1" if timers
--   are due, arrival of its oldest available message in ms (below 0 none), messages in ;retry, ;lapsed, ;poison and ;journal, the
--   counters dead, n_poison, n_receive_rejected, n_receive_timeout; "-" and the flags
-- FLAGS no-writes
--- require "core/context"
--- require "core/queue"
--- require "core/oldest"
--- require "core/timers"
--- require "claims/claim_pages"
-- Change together with: DepthRow in mqredis/commands/inspection.py, which takes the numbers by place. core/removal says where else
-- a counter is read. Tests: tests/inspection/test_overview.py.
--
-- budget: commands after which a call ends; queue_cost: commands that a queue takes; text_cost: what a text of locks beside its
-- header counts as
local budget, queue_cost, text_cost = 1000, 8, 8
local reply = context.observe()
if reply then return reply end

-- Returns how many messages the subqueues hold that the broker fills, as a text of four numbers, and the bytes of those messages
-- that return to the queue. The headers of subqueues are in meta, too.
local function count_beside(q)
  local keys, counts, resting = { nil }, { nil }, 0
  for n, name in ipairs({ "retry", "lapsed", "poison", "journal" }) do keys[n] = queue.subqueue_key(q, name) end
  local headers = redis.call("HMGET", KEYS[1], unpack(keys))
  for n = 1, #keys do
    local _, messages, bytes = queue.parse_header(headers[n])
    counts[n] = messages or "0"
    if n <= 2 then resting = resting + (bytes or 0) end
  end
  return table.concat(counts, " "), resting
end

reply = context.reply(status.OK, context.shown(context.now))
for n = 1, queue.count_keys() do
  if budget <= 0 then break end
  local q, text = queue.read(n), ""
  if q and q.messages then -- else there is no queue, or its header is lost
    local ready, locked, claimed = redis.call("ZCARD", q.available), claim_pages.locked(q), claim_pages.packed(q)
    if locked > claimed then claimed = claimed + redis.call("ZCOUNT", q.locked, queue.claimed, "+inf") end
    local first, first_cost = nil, 0
    if ready > 0 then first, first_cost = oldest.arrival(q) end
    local counters = redis.call("HMGET", q.key, "dead", "n_poison", "n_receive_rejected", "n_receive_timeout")
    for k = 1, #counters do counters[k] = counters[k] or "0" end
    local due = timers.overdue(q) and 1 or 0
    local beside, resting = count_beside(q)
    text = string.format("%d %d %d %d %d %d %d %d %d ", q.messages, q.bytes + resting, q.gone, ready,
      locked, claimed, redis.call("ZCARD", q.waiters), due, first and context.shown(first) or -1)
      .. beside .. " " .. table.concat(counters, " ") .. " -" .. q.flags
    budget = budget - queue_cost - first_cost - text_cost * q.lock_texts
  end
  reply[#reply + 1] = text
end
return context.close(reply)
