--- require "core/context"
--- require "core/position"
--- require "core/removal"
--- require "core/queue"
--- require "core/store"
--- require lazy "features/copy"
--- require lazy "features/other_queues"
--- require "waiting/waiters"
--- used by bulk, operator_record, redrive, schedule_write, tx_abort, unlock, worker_order
-- What all actions of operators have in common: a token, with which an action runs once however often it is called, and the log
-- of actions. A script of an operator has these arguments first:
--
--   ARGV[3] token  "", or anything else if the last of KEYS is the key of a token
--   ARGV[4] entry  for the log: a message without its priority, that is flag digit, head, NUL, body (core/record); "" if nothing is
--                  logged
--
-- and calls these functions, in this order:
--
--   operator.repeated  before it decides anything: has an earlier call with this token carried out the action?
--   operator.plan      before its first write: asks for the queue of the log
--   operator.log       once the action is applied: writes the entry
--   operator.close     at its end, in place of context.close. Between store.save and waiters.notify, if it has changed queues of
--                      its own; otherwise operator.finish does all three. After a refusal context.close, so that a call with this
--                      token carries out the action once the cause is gone
--
-- The key of a token is a hash with one field: "reply", the reply of the action (context.format_reply). The client makes its name
-- from the token and everything that the action depends on, so that another action with this token runs.
--
-- Change together with: mqredis/operations/actions.py, which makes entries and the keys of tokens; mqredis/console/pages/log.py and
-- mqredis/cli/operator.py, which show the properties `changed` and `finished`; docs/operating.md, for `remembered` and `most`.
-- Tests: tests/operator/test_bulk.py, test_record.py, test_force.py.
--
-- remembered  ms after which Redis removes the key of a token
-- most        entries of the log, the queue system$;actions; then its oldest entry leaves for a new one
local operator = { remembered = 86400000, most = 10000 }

-- Returns the lookup ids among the arguments of the script, from this place of ARGV on: each once, however often it is named. Also
-- for redrive.lua, which has neither token nor entry.
function operator.lookup_ids(from)
  local ids, known = { nil }, {}
  for n = from, #ARGV do
    local id = ARGV[n]
    if not known[id] then ids[#ids + 1], known[id] = id, true end
  end
  return ids
end

-- Returns the key of the token; nil if the script was called without one.
function operator.token_key()
  if ARGV[3] ~= "" then return KEYS[#KEYS] end
end

-- Returns the entry for the log; nil if nothing is logged.
function operator.entry()
  if ARGV[4] ~= "" then return ARGV[4] end
end

-- Returns the place in KEYS of the last key before that of the token.
function operator.last_key()
  return operator.token_key() and #KEYS - 1 or #KEYS
end

-- Returns the reply of an earlier call with this token; nil if there was none.
function operator.repeated()
  local key = operator.token_key()
  local text = key and redis.call("HGET", key, "reply")
  if not text then return end
  return context.close(context.parse_reply(text))
end

-- Asks for the queue of the log, if the action is logged (context.missing).
function operator.plan()
  if not operator.entry() then return end
  other_queues.find(queue.log, true)
end

-- Writes the entry into the log, with two properties more. Returns its lookup id, nil if the action is not logged.
-- `changed`: how many messages, or operations of a transaction, the action has changed so far; `finished`: false if it goes
-- on with further calls; `earlier`: lookup id of the entry that the call before of the same action has written, which is
-- replaced; "" or nil if there is none.
function operator.log(changed, finished, earlier)
  local entry = operator.entry()
  if not entry then return end
  local log = other_queues.find(queue.log) -- operator.plan has asked for it
  if earlier and redis.call("ZSCORE", log.available, earlier) then
    removal.delete(log, position.read(log, { earlier }), "dropped")
  end
  if log.messages + 0 >= operator.most then
    removal.delete(log, position.read(log, redis.call("ZRANGE", log.available, 0, 0)), "dropped")
  end
  local stop = string.find(entry, "\0", 1, true)
  local head = string.sub(entry, 2, stop - 1) .. "\1changed\2i" .. changed .. "\1finished\2"
    .. (finished and "t" or "f")
  local flag = string.sub(entry, 1, 1) + 0 -- below 10: the body is not large, and the entry not named (core/record)
  -- Also in a manager that is full: what makes room is logged, too, and the log is bounded.
  return copy.insert(log, flag, head, string.sub(entry, stop), "")
end

-- Ends the script as context.close does, and keeps the reply, or `kept` if that is not nil, under the token for repeated calls.
function operator.close(reply, kept)
  reply = context.close(reply)
  local key = operator.token_key()
  if key then
    redis.call("HSET", key, "reply", context.format_reply("0", "-", kept or reply)) -- with no sequence and no ids
    redis.call("PEXPIRE", key, operator.remembered)
  end
  return reply
end

-- Does so for a script that works on no queue of its own, but on the log and other queues that it has found (context.sides): saves
-- them before, and notifies their readers after it.
function operator.finish(reply, kept)
  store.save_sides()
  reply = operator.close(reply, kept)
  waiters.notify_sides()
  return reply
end
