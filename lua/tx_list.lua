-- Open transactions, a page at a time: a few steps of a scan of the log, so a page may be shorter or longer than was asked for.
-- MS-MQDMPR 3.1.1.14 Transaction
--
-- CALLERS transactions in mqredis/commands/inspection.py
-- KEYS message
-- ARGV[3] cursor  of the scan, "0" for the first page
-- ARGV[4] operations  of each transaction that are told at most
-- RETURNS OK the lead of the broker's clock in ms (core/context), the next cursor ("0": this was the last page), then of
--   each transaction: number of elements that follow, id, its record, the client text of its session (core/session), its first
--   operations (transactions/tx)
-- FLAGS no-writes
--- require "core/context"
--- require "transactions/tx"
-- Change together with: mqredis/codec/transactions.py, which parses records and operations.
-- Tests: tests/inspection/test_holders.py.
local txs, cursor, operations = KEYS[2], ARGV[3], ARGV[4] + 0
local reply = context.observe()
if reply then return reply end
local page = redis.call("HSCAN", txs, cursor, "COUNT", 256)
local found = tx.list(page[2], true)
reply = context.reply(status.OK, context.lead, page[1])
for n = 1, #found do
  local id, session = found[n].id, found[n].session
  local texts = tx.read_some(id, math.min(operations, found[n].count)) -- the record comes first
  context.append(reply, #texts + 2, id, texts[1] or "", redis.call("HGET", KEYS[1], "client:" .. session) or "")
  for k = 2, #texts do reply[#reply + 1] = texts[k] or "" end
end
return context.close(reply)
