--- require "core/context"
--- require "core/queue"
--- require lazy "core/record"
--- require lazy "core/release"
--- require lazy "features/other_queues"
--- require "features/trail_store"
--- require lazy "matching/index"
--- used by admin/redrive, core/enqueue, features/copy, features/features, trail_read
-- Keeps the trails of messages: what has happened to a message, when, and by whom (docs/decisions/observation.md). It is an
-- optional feature of queues. A queue with the property `trail` marks a share of the messages that come to it with the field
-- `trail` of the head (core/enqueue). What happens to a marked message is noted, wherever it goes within the manager: by the hooks
-- at the end, which features/features calls, and for copies by trail.copied. features/trail_store has the form of the stored texts.
--
-- A trail has a number: the lookup id of its message without the priority, the first two digits. The field `trail` is empty as
-- long as the message has this id. A dead letter or a redriven message has an id of its own, and the number in the field.
--
-- Field "trail" of a queue's hash: the share of its messages, a number above 0 and at most 1; mqredis/commands/queues.py writes it,
-- the check `shares` of the doctor reads it.
--
-- Change together with: an event is one of TrailEvent in mqredis/models/inspection.py, which says what it means to users
-- (tests/contract/test_constants.py compares those that are found in quotes). An event that a feature decides is set as
-- `entry.event` before the message moves or is deleted (features/retry, features/trash); that of a new reason is in trail.ends.
-- Tests: tests/inspection/test_trail.py.
--
-- most_detail: bytes of a detail at most
local trail = { most_detail = 200 }

-- By the reason for which a message leaves, the event that is noted; false: copy.put notes another one. Other reasons are not
-- noted here.
trail.ends = { receive = "committed", receive_rejected = "rejected", receive_timeout = "expired",
  queue_purged = "purged", queue_deleted = "deleted", dropped = "dropped", poison = false }

-- Which messages --------------------------------------------------------------------------------------------------------

-- Returns the share of a queue's messages that are marked, from 0 to 1; read once in a call.
function trail.share(q)
  local notes = queue.notes(q)
  notes.trail_share = notes.trail_share or tonumber(redis.call("HGET", q.key, "trail") or "") or 0
  return notes.trail_share
end

-- Is the `n`-th message that a call sends one of this share? A hash of its SequentialID decides, so that a repeated call
-- decides the same.
function trail.picks(share, n)
  return (context.seq + n) % 65536 * 40503 % 65536 / 65536 < share
end

-- Returns the record with the mark, which makes it two bytes longer.
function trail.mark(rec)
  return record.set_flag(record.with(rec, "trail", ""), record.bits.special)
end

-- Returns the number of the trail of a marked message. `rec`: false for a message that is gone: then it had its first lookup id.
function trail.number(id, rec)
  local own = rec and record.field(rec, "trail")
  return own and own ~= "" and own or string.sub(id, 3)
end

-- Returns the message id that the sender has chosen, encoded; nil if it has chosen none.
function trail.message_id(rec)
  local id = record.field(rec, "message_id")
  if not id then return end
  return other_queues.encode(index.id(id))
end

-- What is noted -----------------------------------------------------------------------------------------------------------

-- Returns who did something, as "<session> <client>". `slot`: of its session; nil if the broker did it.
function trail.by(slot)
  local session = context.session_of(slot or "")
  if not session then return "- -" end
  local told, client = pcall(cjson.decode, redis.call("HGET", KEYS[1], "client:" .. session) or "")
  local name = told and type(client) == "table" and client.name
  if type(name) ~= "string" or name == "" then return session .. " -" end
  return session .. " " .. other_queues.encode(name)
end

-- Returns the text of an entry of now about a message of q. `by`: as trail.by returns it; `more`: a table that may have a target (a
-- queue), an id (the message's lookup id there) and a detail.
function trail.entry(q, event, by, more)
  local detail = string.gsub(more.detail or "", "[%z\1-\31]", " ")
  if #detail > trail.most_detail then
    -- No half of a UTF-8 character at the end.
    detail = string.gsub(string.sub(detail, 1, trail.most_detail), "[\192-\255][\128-\191]*$", "")
  end
  local target = more.target and queue.name(more.target) or "-"
  return trail_store.format_entry(context.now_text, event, queue.name(q), by, target, more.id or "-", detail)
end

-- Returns the numbers of the trails of these messages of a batch.
function trail.numbers(batch, places)
  local numbers = { nil }
  for k = 1, #places do numbers[k] = trail.number(batch.ids[places[k]], batch.records[places[k]]) end
  return numbers
end

-- Hooks: features/features says when they are called, and what `batch` and `places` are --------------------------------

-- Begins the trails of messages that become available for the first time, in a transaction at its commit. A trail that had
-- ended goes on if a copy of its message arrives.
function trail.arrive(q, batch, places)
  local fields, texts = trail_store.read(trail.numbers(batch, places))
  local changed, sent_entry = { nil, nil }, nil -- changed: field, text, field, text, ...
  for k = 1, #fields do
    local text = texts[k]
    if not text then
      local message_id = trail.message_id(batch.records[places[k]])
      if message_id then
        changed[#changed + 1] = trail_store.id_field(queue.name(q), message_id)
        changed[#changed + 1] = batch.ids[places[k]]
      end
      sent_entry = sent_entry or trail.entry(q, "sent", trail.by(ARGV[1]), {})
      text = trail_store.format_first(message_id, sent_entry)
    elseif string.sub(text, 1, 1) ~= "0" then
      text = trail_store.with_end(text, 0)
    end
    if text ~= texts[k] then changed[#changed + 1], changed[#changed + 2] = fields[k], text end
  end
  trail_store.write(changed)
end

-- Notes that messages are locked, or deleted. A move is noted by trail.move, a redrive by trail.copied.
function trail.leave(q, batch, places)
  local numbers = trail.numbers(batch, places)
  if batch.locked then
    if batch.holder then trail_store.note(numbers, trail.entry(q, "locked", trail.by(batch.holder), {})) end
    return
  end
  local event = trail.ends[batch.reason]
  if event == nil then return end
  if event then trail_store.note(numbers, trail.end_entries(q, batch, places, event)) end
  trail_store.finish(numbers)
end

-- Returns an entry for each of these messages, which are deleted. `event`: the usual one for the reason; entry.event comes before
-- it.
function trail.end_entries(q, batch, places, event)
  local entries, caller = { nil }, trail.by(ARGV[1])
  for k = 1, #places do
    local entry, usual = batch.entries[places[k]], event
    if event == "committed" and not batch.held[places[k]] then usual = "received" end
    local by_broker = entry.event or event == "expired" or event == "dropped"
    local by = by_broker and trail.by() or caller
    entries[k] = trail.entry(q, entry.event or usual, by, { detail = entry.why })
  end
  return entries
end

-- Notes that locked messages come back. Only core/release calls this hook. entry.holder: the slot or transaction that had the
-- lock, false or nil if none did.
function trail.unlock(q, batch, places)
  local numbers, entries, caller = { nil }, { nil }, trail.by(ARGV[1])
  for k = 1, #places do
    local entry = batch.entries[places[k]]
    local event = entry.lapsed and "lapsed" or entry.verdict == release.verdicts.returned and "returned" or "aborted"
    if entry.holder then
      numbers[#numbers + 1] = trail.number(entry.id, entry.rec)
      local by = entry.lapsed and trail.by(entry.holder) or caller
      entries[#entries + 1] = trail.entry(q, event, by, { detail = entry.why })
    end
  end
  if numbers[1] then trail_store.note(numbers, entries) end
end

-- Notes that messages go to batch.target. An entry's `event` says why, if the broker decided that (features/retry).
function trail.move(q, batch, places)
  local entries, caller = { nil }, trail.by(ARGV[1])
  for k = 1, #places do
    local event = batch.entries[places[k]].event
    local by = event and trail.by() or caller
    entries[k] = trail.entry(q, event or "moved", by, { target = batch.target })
  end
  trail_store.note(trail.numbers(batch, places), entries)
end

-- Copies: dead letters, and messages that are redriven ------------------------------------------------------------------

-- Returns the head of a copy with this number in the field `trail`; without the field if `number` is false or nil.
function trail.carry(head, number)
  return (string.gsub(head, record.fields.trail .. "[^\1\3]*", number and record.fields.trail .. number or ""))
end

-- Notes that a copy of a message of q, whose entry (core/position) this is, is in the queue `target` now, with the lookup id `id`.
-- `event`: "dead_lettered" or "redriven", which alone is done by the caller.
function trail.copied(q, target, entry, id, event, detail)
  local by = trail.by(event == "redriven" and ARGV[1] or nil)
  local text = trail.entry(q, event, by, { target = target, id = id, detail = detail })
  trail_store.note({ trail.number(entry.id, entry.rec) }, text)
end

trail.hooks = { arrive = trail.arrive, leave = trail.leave, unlock = trail.unlock, move = trail.move }
