--- require "core/context"
--- require "core/position"
--- require "core/removal"
--- require "core/store"
--- require "core/queue"
--- require lazy "core/record"
--- require lazy "features/copy"
--- require lazy "features/failure"
--- require lazy "features/other_queues"
--- require lazy "features/trace"
--- require lazy "features/trail"
--- used by admin/bulk_actions, redrive
-- Sends dead letters, journal copies and poison messages back to the queue that they came from, as new messages with the
-- message id of old. What a message asked for is in force again, and its times count anew; only its dedup key is not taken
-- a second time.
--
-- Change together with: features/copy, for another field that a copy tells of itself (copy.about) or a wish that it keeps without
-- effect (copy.requests): redrive.original takes the first away and puts the others in force again. tests/model/redrive.py has the
-- same rules, with which tests/property compares; other tests: tests/msmq/test_requests.py, test_found.py, test_failed.py.
--
-- former: what a worker of the release before added to its copies; read for one release.
local redrive = { former = { "reason", "queue", "message_id", "deliveries" } }

-- Decides where these available messages go: returns the queue of each, by place; false for one that stays. `name`: the
-- encoded name of the queue that all go to, "" if each goes to its own. context.missing may name queues then.
function redrive.plan(q, entries, name)
  local targets = {}
  for n = 1, #entries do
    local origin = redrive.origin(q, entries[n])
    local wanted = name ~= "" and name or origin and other_queues.encode(string.match(origin, "^[^;]*"))
    local to = wanted and other_queues.find(wanted)
    if to then -- a message that expires as it arrives there leaves traces, whose queues are asked for now
      -- Flag 1: the message is special (core/record).
      local rec = context.now_text .. "1" .. (redrive.original(to, entries[n])) .. "\0"
      trace.expiring(to, { { id = entries[n].id, rec = rec } })
    end
    targets[n] = to and to ~= q and not to.options.put_inhibited and not to.options.topic and to or false
  end
  return targets
end

-- Sends the messages to `targets`, as redrive.plan returned them. Returns how many went; one for which its queue has no
-- room stays.
function redrive.apply(q, entries, targets)
  local went = 0
  for n = 1, #entries do
    local to = targets[n]
    if to then
      -- It leaves q for this queue, so that it makes room for itself: it does not count while redrive.send looks for room.
      local size = position.size(q, entries[n])
      redrive.count(q, -1, -size)
      local id = redrive.send(q, to, entries[n])
      redrive.count(q, 1, size)
      if id then
        went = went + 1
        removal.delete(q, { entries[n] }, "redriven")
      end
    end
  end
  return went
end

-- Counts messages of q out (negative) or in where they count beside q: in the manager, and in the parent whose quota q shares.
function redrive.count(q, count, bytes)
  context.messages, context.bytes = context.messages + count, context.bytes + bytes
  if q.parent and not q.has_own_quota then store.count_in_parent(q.parent, count, bytes) end
end

-- Returns the name of the queue that a failed message came from: that of which it is a copy; that whose ;poison it is
-- in; or, of a copy that a worker of the release before made, what its property says. nil if the message does not tell.
function redrive.origin(q, entry)
  local origin = record.field(entry.rec, "original_queue")
  if origin then return origin end
  local home, subqueue = queue.split_name(queue.name(q))
  if subqueue == "poison" then return other_queues.decode(home) end
  local head = record.split(entry.rec)
  return string.match(head, "\1dead_letter_queue\2s([^\1\3]+)")
end

-- Returns head and body of the message that an entry is a copy of, as a new message for `to`: what the copy tells of itself
-- goes, and what the message asked for counts again.
function redrive.original(to, entry)
  local rec = failure.remove(entry.rec)
  local head, body = record.split(rec)
  head = record.without(record.without(head, copy.about), { "message_class" })
  -- Of a copy, these are its own times (copy.expiry, rewrite.due), not what the message asked for.
  if record.field(rec, "original_queue") then head = record.without(head, { "time_to_be_received", "delay" }) end
  head = record.suspend(record.resume(head, copy.requests), record.dedup_fields)
  head = copy.with_identity(head, entry)
  if string.find(head, "\1dead_letter_queue\2", 1, true) then
    for n = 1, #redrive.former do
      head = string.gsub(head, "\1dead_letter_" .. redrive.former[n] .. "\2[^\1\3]*", "")
    end
  end
  if not to.options.transactional then
    head = record.without(head, { "transaction_id" })
  elseif not record.field(entry.rec, "transaction_id") then -- in a transactional queue each message names one
    head = head .. record.fields.transaction_id .. "redrive"
  end
  return head, body
end

-- Puts the message that an entry is a copy of into `to`. Returns its lookup id; nil if there is no room for it.
function redrive.send(q, to, entry)
  local head, body = redrive.original(to, entry)
  local large = record.has_large_body(entry.rec) and redis.call("HGET", q.records, "^" .. entry.id) or ""
  local trailed = record.field(entry.rec, "trail")
  if trailed then head = trail.carry(head, trail.number(entry.id, entry.rec)) end
  local id = copy.insert_if_room(q, to, copy.flag(entry.rec), head, body, large)
  if id and trailed then trail.copied(q, to, entry, id, "redriven", "") end
  return id
end
