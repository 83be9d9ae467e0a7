--- require "core/chunked"
--- require "core/context"
--- require "core/queue"
--- require "core/record"
--- require lazy "core/release"
--- require lazy "features/other_queues"
--- require lazy "matching/index"
--- used by admin/redrive, core/enqueue, features/copy, features/features, trail_read
-- Keeps the trails of messages: what has happened to a message, when, and by whom (docs/decisions/observation.md). It is an
-- optional feature of queues. A queue with the property `trail` marks a share of the messages that come to it with the field
-- `trail` of the head. What happens to a marked message is noted, wherever it goes within the manager.
--
-- A trail has a number: the lookup id of its message without the priority, the first two digits. The field `trail` is empty as
-- long as the message has this id. A dead letter or a redriven message has an id of its own, and the number in the field.
--
-- Field "trail" of a queue's hash: the share of its messages, a number above 0 and at most 1. Fields of meta, which this module
-- alone writes; mqredis/codec/trails.py and the doctor (checks/trails.py) read them, and mqredis/models/inspection.py lists the
-- events (TrailEvent):
--
--   "trail:<number>"  "<end> <omitted>", " " and the message id if the sender has chosen one, then the entries, each behind
--                     "\n": "<ms> <event> <queue> <session> <client> <target> <id> <detail>"
--                     end: how many trails had ended when this one did; 0 while its message is there
--                     omitted: so many entries were dropped behind the first one
--                     message id: as in the index (matching/index), encoded as names in keys are
--                     queue, client, target: encoded as in keys; "-" for what is not known, or for what there is none of
--                     id: the lookup id that the message has in the target, if that is a new one; else "-"
--                     detail: up to the end, may be empty
--   "trail:#<place>"  the number of the trail that has ended as one of the last `kept`
--   "trail:=<queue> <message id>"  the first lookup id of the last message with this id that was sent to the queue
--   "trails"          how many trails have ended
--
-- entries, bytes: what a trail holds at most: then the oldest entries behind the first one are dropped. kept: how many trails
-- of messages that are gone are kept. detail: bytes of a detail at most.
local trail = { entries = 32, bytes = 4096, kept = 1000, detail = 200 }

-- By the reason for which a message leaves, the event that is noted; false: copy.put notes another one. Other reasons are not
-- noted here.
trail.ends = { receive = "committed", receive_rejected = "rejected", receive_timeout = "expired",
  queue_purged = "purged", queue_deleted = "deleted", dropped = "dropped", poison = false }

-- The stored texts ------------------------------------------------------------------------------------------------------

-- Returns the text of an entry, from texts as described above. `by`: "<session> <client>", as trail.by returns it.
function trail.format(ms, event, name, by, target, id, detail)
  return table.concat({ ms, event, name, by, target, id, detail }, " ")
end

-- Returns end, number of omitted entries, message id ("" for none) and the entries of a trail, all as texts; nil if the text is
-- no trail.
function trail.parse(text)
  return string.match(text, "^(%d+) (%d+) ?(%S*)(\n.+)$")
end

-- Returns the text of a trail with one entry more.
function trail.append(text, entry)
  local stop, omitted, message_id, entries = trail.parse(text)
  entries = entries .. "\n" .. entry
  local _, count = string.gsub(entries, "\n", "")
  while count > 2 and (count > trail.entries or #entries > trail.bytes) do
    local second = string.find(entries, "\n", 2, true)
    local third = string.find(entries, "\n", second + 1, true)
    entries = string.sub(entries, 1, second - 1) .. string.sub(entries, third)
    count, omitted = count - 1, omitted + 1
  end
  return stop .. string.format(" %d", omitted) .. (message_id ~= "" and " " .. message_id or "") .. entries
end

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

-- Returns the number of the trail of a marked message.
function trail.number(id, rec)
  local own = record.field(rec, "trail")
  return own ~= "" and own or string.sub(id, 3)
end

-- Returns the field of meta for a message id in a queue. `name`: encoded, of the queue or of one of its subqueues.
function trail.id_field(name, message_id)
  return "trail:=" .. (string.match(name, "^(.-)%%3B") or name) .. " " .. message_id
end

-- Returns the message id that the sender has chosen, encoded; nil if it has chosen none.
function trail.message_id(rec)
  local id = record.field(rec, "message_id")
  if not id then return end
  index.load()
  id = index.id(id)
  if not id then return end
  other_queues.load()
  return other_queues.encode(id)
end

-- What is noted -----------------------------------------------------------------------------------------------------------

-- Returns who did something, as "<session> <client>". `slot`: of its session; nil if the broker did it.
function trail.by(slot)
  local session = string.match(slot or "", "^(%d+)%.%d+$")
  if not session then return "- -" end
  local told, client = pcall(cjson.decode, redis.call("HGET", KEYS[1], "client:" .. session) or "")
  local name = told and type(client) == "table" and client.name
  if type(name) ~= "string" or name == "" then return session .. " -" end
  other_queues.load()
  return session .. " " .. other_queues.encode(name)
end

-- Returns the text of an entry of now about a message of q. `by`: as trail.by returns it; `more`: may have a target (a
-- queue), an id (the message's lookup id there) and a detail.
function trail.entry(q, event, by, more)
  local detail = string.gsub(more.detail or "", "[%z\1-\31]", " ")
  if #detail > trail.detail then
    -- No half of a UTF-8 character at the end.
    detail = string.gsub(string.sub(detail, 1, trail.detail), "[\192-\255][\128-\191]*$", "")
  end
  local target = more.target and queue.name(more.target) or "-"
  return trail.format(context.now_text, event, queue.name(q), by, target, more.id or "-", detail)
end

-- Adds an entry to each of these trails, if it exists. `entries`: one text for all, or a list with a text for each.
function trail.note(numbers, entries)
  local fields, changed = trail.fields(numbers), { nil, nil }
  local texts = chunked.read(KEYS[1], fields)
  for n = 1, #fields do
    if texts[n] then
      changed[#changed + 1] = fields[n]
      changed[#changed + 1] = trail.append(texts[n], type(entries) == "table" and entries[n] or entries)
    end
  end
  if changed[1] then chunked.fields(KEYS[1], changed) end
end

-- Returns the fields of meta with these trails.
function trail.fields(numbers)
  local fields = { nil }
  for n = 1, #numbers do fields[n] = "trail:" .. numbers[n] end
  return fields
end

-- Returns the numbers of the trails of these messages of a batch.
function trail.numbers(batch, places)
  local numbers = { nil }
  for k = 1, #places do numbers[k] = trail.number(batch.ids[places[k]], batch.records[places[k]]) end
  return numbers
end

-- Hooks (features/features) ---------------------------------------------------------------------------------------------

-- Begins the trails of messages that become available for the first time, in a transaction at its commit. A trail that had
-- ended goes on if a copy of its message arrives.
function trail.arrive(q, batch, places)
  local fields, changed, sent = trail.fields(trail.numbers(batch, places)), { nil, nil }, nil
  local texts = chunked.read(KEYS[1], fields)
  for k = 1, #fields do
    local text = texts[k]
    if not text then
      local message_id = trail.message_id(batch.records[places[k]])
      if message_id then
        changed[#changed + 1] = trail.id_field(queue.name(q), message_id)
        changed[#changed + 1] = batch.ids[places[k]]
      end
      sent = sent or trail.entry(q, "sent", trail.by(ARGV[1]), {})
      text = "0 0" .. (message_id and " " .. message_id or "") .. "\n" .. sent
    elseif string.sub(text, 1, 1) ~= "0" then
      text = string.gsub(text, "^%d+", "0")
    end
    if text ~= texts[k] then changed[#changed + 1], changed[#changed + 2] = fields[k], text end
  end
  if changed[1] then chunked.fields(KEYS[1], changed) end
end

-- Notes that messages are locked, or deleted. A move is noted by trail.move, a redrive by trail.copied.
function trail.leave(q, batch, places)
  local numbers, event = trail.numbers(batch, places), trail.ends[batch.reason]
  if batch.locked then
    if batch.holder then trail.note(numbers, trail.entry(q, "locked", trail.by(batch.holder), {})) end
    return
  end
  if event == nil then return end
  local entries, caller = { nil }, trail.by(ARGV[1])
  for k = 1, event and #places or 0 do
    local entry, name = batch.entries[places[k]], event
    if event == "committed" and not batch.held[places[k]] then name = "received" end
    local broker = entry.event or event == "expired" or event == "dropped"
    entries[k] = trail.entry(q, entry.event or name, broker and trail.by() or caller, { detail = entry.why })
  end
  if event then trail.note(numbers, entries) end
  trail.finish(numbers)
end

-- Removes a trail whose place among the last `kept` another one takes, the `ended`-th that has ended. A trail that went on
-- after its end stays: it has another place by now, or none.
function trail.forget(number, ended)
  local stop, _, message_id, entries = trail.parse(redis.call("HGET", KEYS[1], "trail:" .. number) or "")
  if not stop or stop == "0" or stop % trail.kept ~= ended % trail.kept then return end
  redis.call("HDEL", KEYS[1], "trail:" .. number)
  if message_id == "" then return end
  local field = trail.id_field(string.match(entries, "^\n%d+ %S+ (%S+)"), message_id)
  if string.sub(redis.call("HGET", KEYS[1], field) or "", 3) == number then redis.call("HDEL", KEYS[1], field) end
end

-- Ends the trails with these numbers, whose messages are gone. They are kept as long as they are among the last `kept`.
function trail.finish(numbers)
  local ended = redis.call("HINCRBY", KEYS[1], "trails", #numbers) - #numbers
  for n = 1, #numbers do
    ended = ended + 1
    local field, place = "trail:" .. numbers[n], string.format("%d", ended % trail.kept)
    local text, old = redis.call("HGET", KEYS[1], field), redis.call("HGET", KEYS[1], "trail:#" .. place)
    if old then trail.forget(old, ended) end
    if text then
      text = string.gsub(text, "^%d+", string.format("%d", ended))
      redis.call("HSET", KEYS[1], field, text, "trail:#" .. place, numbers[n])
    end
  end
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
  if numbers[1] then trail.note(numbers, entries) end
end

-- Notes that messages go to batch.target. An entry's `event` says why, if the broker decided that (features/retry).
function trail.move(q, batch, places)
  local entries, caller = { nil }, trail.by(ARGV[1])
  for k = 1, #places do
    local event = batch.entries[places[k]].event
    entries[k] = trail.entry(q, event or "moved", event and trail.by() or caller, { target = batch.target })
  end
  trail.note(trail.numbers(batch, places), entries)
end

-- Copies: dead letters, and messages that are redriven ------------------------------------------------------------------

-- Returns the head of a copy with this number in the field `trail`; without the field if `number` is false or nil.
function trail.carry(head, number)
  return (string.gsub(head, record.fields.trail .. "[^\1\3]*", number and record.fields.trail .. number or ""))
end

-- Notes that a copy of a message of q, whose entry (core/position) this is, is in the queue `target` now, with the lookup id `id`.
function trail.copied(q, target, entry, id, event, detail)
  local by = trail.by(event == "redriven" and ARGV[1] or nil)
  local text = trail.entry(q, event, by, { target = target, id = id, detail = detail })
  trail.note({ trail.number(entry.id, entry.rec) }, text)
end

trail.hooks = { arrive = trail.arrive, leave = trail.leave, unlock = trail.unlock, move = trail.move }
