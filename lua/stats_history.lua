-- What came, left, failed and was tried again in these queues in each period of 5 minutes of the last day.
-- MQMQ 2.3.11-12
--
-- CALLERS history in mqredis/commands/history.py
-- KEYS message
-- QUEUE[1+] the queues
-- ARGV[3] buckets  so many buckets before the one that is open
-- RETURNS OK now in ms, the lead of the broker's clock in ms (core/context), then for each of the first queues (the others are for
--   the next call): "" if there is none, else a text: how many messages came, left, failed and were tried again, arrival of the
--   oldest available message in ms (-1 none), and what core/statistics keeps
-- FLAGS no-writes
--- require "core/context"
--- require "core/statistics"
--- require "core/oldest"
--- require "core/queue"
-- Change together with: `_row` in mqredis/commands/history.py, which splits the text. Tests: tests/inspection/test_history.py.
-- budget: commands that a call may run, by estimate; text_bytes: so many bytes of a text cost as much as one command.
local budget, text_bytes = 1500, 250
local bucket_count = ARGV[3] + 0
local reply = context.observe()
if reply then return reply end
reply = context.reply(status.OK, context.now, context.lead)
for n = 1, queue.count_keys() do
  if budget <= 0 then break end
  local q, text = queue.read(n), ""
  if q and q.messages then -- else there is no queue, or its header is lost
    local arrival, cost = oldest.arrival(q)
    local kept, size = statistics.read(q, bucket_count)
    text = string.format("%s %d %s", statistics.join(statistics.counters(q)), arrival or -1, kept)
    budget = budget - 2 - cost - (size + #kept) / text_bytes
  end
  budget = budget - 1
  reply[#reply + 1] = text
end
return context.close(reply)
