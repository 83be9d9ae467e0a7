--- require "core/context"
--- require "core/queue"
--- require "core/quota"
--- require "core/position"
--- require lazy "core/record"
--- require lazy "core/release"
--- require lazy "features/other_queues"
--- require lazy "features/trace"
--- used by features/retry
-- The retry policy of a queue: decides what happens to a message that a reader gave back, or whose lease lapsed
-- (docs/decisions/attempts.md). features/retry calls it and carries the decision out. It writes nothing, but asks for the queues
-- that it needs (context.missing). `q` is the queue that the message is in: that with the policy, or one of its subqueues, whose
-- parent is set (queue.set_parent).
--
-- A round is one attempt and the immediate retries. Between two rounds the message rests in the subqueue ;retry. After
-- the last round the policy ends. Rounds are not stored: the number of attempts tells which one it is.
--
-- The policy is field "retry" of the queue's hash, "" if there is none. Change together with: mqredis/commands/queues.py writes and
-- reads it, too, and the doctor knows its form (mqredis/operations/doctor/checks/policies.py); tests/contract/test_stored_texts.py
-- compares all three, and the log of a failed attempt (mqredis/worker/failed_attempts.py), which says what is decided here.
-- RetryPolicy in mqredis/models/queue.py describes the fields for users. Tests: tests/msmq/test_retry.py, test_attempts.py,
-- test_failed.py; the model that tests compare the broker with is tests/model/retry.py.
--
--   "<immediate> <cycles> <delay> <factor> <most> <final> <jitter> <isolate> <dead_letter_queue>"
--   example: 2 5 10000 2.0 3600000 dead_letter 0.1 0 orders-failed
--
--   immediate    retries without a rest in each round
--   cycles       how many rounds follow the first one, each after a rest
--   delay, most  the first and the longest rest, in ms; each rest is `factor` times as long as the one before
--   final        how the policy ends: poison, dead_letter, reject or drop
--   jitter       by up to this part of itself, 0 to 1, a rest is longer
--   isolate      1: a message whose lease lapsed goes to the subqueue ;lapsed, where workers take one at a time
--   dead_letter_queue  its encoded name; "-": that of the message or of the system
--
-- A fate, as retry_policy.decide returns it, is one of these texts:
--
--   again        the message is available again in its old place; if it has expired it is deleted then
--   wait         it rests in its subqueue, as a delayed message
--   retry        it rests in ;retry, and comes back from there
--   lapsed       it rests in ;retry, and goes to ;lapsed from there
--   poison       the policy ends: it goes to the subqueue ;poison
--   full         the policy ends, but ;poison has no room: it rests in ;retry for the longest time
--   dead_letter, reject, drop   the policy ends: the message is deleted; the first leaves a dead letter, the second if asked
--
-- The first line that fits decides (retry_policy.decide, and retry_policy.final for the end of the policy):
--
--   it has expired                                           again
--   its reader gave it back in order                         retry if it named a rest (wait in a subqueue that is not one
--                                                            of the policy's rests), else again; lapsed if it is to be
--                                                            read alone, and the policy isolates
--   its reader said that it failed for good, or the last     dead_letter, reject or drop, as `final` says; poison if `final`
--   round is over                                            says so, or the dead letter finds no room; full instead of
--                                                            poison if ;poison has no room; again if it is in ;poison
--   its lease lapsed, and the policy isolates                lapsed
--   the round is over                                        retry
--   otherwise                                                again
--
-- none           the policy of a queue that has none: a failure for good makes the message poison
-- margin         bytes by which a copy among the dead letters may be larger than its message and the failure's report
-- shortest_rest  ms that a message rests at least if ;poison has no room
local retry_policy = { none = "0 0 0 1 0 poison 0 0 -", margin = 1024, shortest_rest = 1000 }

-- Returns the policy as a table, read once in a call, with these fields: rounds, attempts_per_round; delay, factor, most, final,
-- jitter, dead_letter_queue (nil for "-") and isolate (true or false) as in its text; poison_messages, poison_bytes: the quota of
-- ;poison, nil if it has none; kept: how long messages stay in ;poison, in seconds, nil if for ever.
function retry_policy.read(q)
  local home = queue.home(q)
  local notes = queue.notes(home)
  notes.retry = notes.retry or retry_policy.parse(unpack(redis.call("HMGET", home.key, "retry",
    "poison_quota_messages", "poison_quota_bytes", "failed_ttl")))
  return notes.retry
end

-- Returns the policy from these fields of the queue's hash, false where one is missing.
function retry_policy.parse(text, poison_messages, poison_bytes, failed_ttl)
  if not text or text == "" then text = retry_policy.none end
  local immediate, cycles, delay, factor, most, final, jitter, isolate, dead_letter_queue =
    string.match(text, "^(%d+) (%d+) (%d+) (%S+) (%d+) (%S+) (%S+) (%d) (%S+)$")
  return { attempts_per_round = tonumber(immediate) + 1, rounds = tonumber(cycles) + 1, delay = tonumber(delay),
    factor = tonumber(factor), most = tonumber(most), final = final, jitter = tonumber(jitter),
    isolate = isolate == "1",
    dead_letter_queue = dead_letter_queue ~= "-" and dead_letter_queue or nil,
    poison_messages = tonumber(poison_messages or ""), poison_bytes = tonumber(poison_bytes or ""),
    kept = tonumber(failed_ttl or "") }
end

-- Returns how many attempts were made: deliveries but for those that a reader gave back in order.
function retry_policy.attempts(entry)
  return entry.state.deliveries - entry.state.uncounted
end

-- Returns the fate of an entry, as above. Of its fields, verdict, rest, alone and report are what its reader said
-- (release.note_verdict); lapsed says that its lease is over.
function retry_policy.decide(q, entry)
  local policy, attempts = retry_policy.read(q), retry_policy.attempts(entry)
  if record.is_expired(entry.rec, context.now) then return "again" end
  if entry.verdict == release.verdicts.returned then
    if not entry.rest then return "again" end
    if entry.alone and policy.isolate then return "lapsed" end
    local is_policys = not q.parent or queue.is_subqueue(q, "retry") or queue.is_subqueue(q, "lapsed")
    return is_policys and "retry" or "wait"
  end
  local is_last_round_over = attempts >= policy.attempts_per_round * policy.rounds
  if entry.verdict == release.verdicts.hopeless or is_last_round_over then return retry_policy.final(q, entry) end
  if entry.lapsed and policy.isolate then return "lapsed" end
  return attempts % policy.attempts_per_round == 0 and "retry" or "again"
end

-- Returns the fate with which the policy ends: no message is lost for want of room.
function retry_policy.final(q, entry)
  local final = retry_policy.read(q).final
  if final ~= "dead_letter" and final ~= "poison" then return final end
  local bytes = position.size(q, entry) + retry_policy.margin + #(entry.report or "")
  if final == "dead_letter" then
    local dead_letter_queue = retry_policy.dead_letter_queue(q, entry)
    -- One that is not at hand has been asked for: the call decides again.
    local is_asked_for = not dead_letter_queue and context.missing
    if is_asked_for or retry_policy.has_room(dead_letter_queue, bytes) then return "dead_letter" end
  end
  local poison = retry_policy.subqueue(q, "poison")
  if poison == q then return "again" end
  -- A queue that is not at hand has been asked for: the call decides again.
  return poison and not retry_policy.has_room(poison, bytes) and "full" or "poison"
end

-- Returns how long an entry with this fate (retry, lapsed or full) rests in ;retry, in ms. Where a lease lapsed within a round the
-- number of rounds is not whole, and the rest is between those of two rounds. Messages that fail together do not come back
-- together: the jitter of each is a hash of its id.
function retry_policy.rest(q, entry, fate)
  local policy = retry_policy.read(q)
  if fate == "full" then return math.max(policy.most, retry_policy.shortest_rest) end
  if entry.rest then return entry.rest end
  if policy.delay == 0 then return 0 end -- 0 times a factor that has grown beyond all numbers is no number
  local rounds_done = math.max(retry_policy.attempts(entry) / policy.attempts_per_round, 1)
  local rest = math.min(policy.most, math.floor(policy.delay * policy.factor ^ (rounds_done - 1)))
  local hash = tonumber(string.sub(entry.id, -4), 16) * 40503 % 65536 / 65536 -- from 0 to 1
  return math.floor(rest * (1 + policy.jitter * hash))
end

-- Does a queue for failed messages (nil: it is not at hand) have a quota of its own?
function retry_policy.has_quota(to)
  return to and (to.quota_messages or to.quota_bytes)
end

-- Does such a queue have room for one message of so many bytes? The manager's quota does not keep failed messages out.
function retry_policy.has_room(to, bytes)
  return to and not quota.exceeds_queue(to, 1, bytes)
end

-- Returns the queue for the dead letter of an entry; nil if it does not exist, is a topic, or is not at hand (context.missing asks
-- for it then). Sets entry.dead_letter_queue, where features/trace finds the queue that the policy names.
function retry_policy.dead_letter_queue(q, entry)
  entry.dead_letter_queue = retry_policy.read(q).dead_letter_queue
  local name, make = trace.dead_letter_queue(entry)
  local to = other_queues.find(name, make)
  return to and not to.options.topic and to or nil
end

-- Returns the subqueue ;<name> of the queue whose policy counts, with its parent set, and ;poison with its quota; nil, and
-- context.missing asks for it, if KEYS lacks it.
function retry_policy.subqueue(q, name)
  local home = queue.home(q)
  local to = other_queues.find_relative(home, queue.join_name(queue.name(home), name), true)
  if to and name == "poison" then
    local policy = retry_policy.read(q)
    queue.set_quota(to, policy.poison_messages, policy.poison_bytes)
  end
  return to
end
