--- require "core/chunked"
--- require "core/queue"
--- used by features/trail, trail_read
-- The stored trails of messages, fields of meta, which this module alone reads and writes; features/trail says what they are for,
-- and decides what is noted.
--
-- Change together with: mqredis/codec/trails.py reads the texts (tests/contract/test_stored_texts.py compares both); the doctor
-- knows the fields, and has `kept` as PLACES (mqredis/operations/doctor/checks/trails.py; tests/contract/test_constants.py
-- compares). Stored places are numbers modulo `kept`, so another `kept` is another schema (core/manager_config), and the doctor's
-- _PLACE takes three digits. Tests: tests/inspection/test_trail.py.
--
--   "trail:<number>"  "<end> <omitted>", " " and the message id if the sender has chosen one, then the entries, each behind
--                     "\n": "<ms> <event> <queue> <session> <client> <target> <id> <detail>"
--                     example: "0 0 sm-1" LF "1764000000000 locked orders 12 billing - - "
--                     end: how many trails had ended when this one did; 0 while its message is there
--                     omitted: so many entries were dropped behind the first one
--                     message id: as in the index (matching/index), encoded as names in keys are
--                     event: one of TrailEvent in mqredis/models/inspection.py
--                     queue, client, target: encoded as in keys; "-" for what is not known, or for what there is none of
--                     id: the lookup id that the message has in the target, if that is a new one; else "-"
--                     detail: up to the end, may be empty
--   "trail:#<place>"  the number of the trail that has ended as one of the last `kept`; place: its end modulo `kept`
--   "trail:=<queue> <message id>"  the first lookup id of the last message with this id that was sent to the queue
--   "trails"          how many trails have ended
--
-- A trail that holds more than `entries` entries, or more than `bytes` bytes of them, loses the oldest ones behind the first. Of
-- messages that are gone, the last `kept` trails are kept.
local trail_store = { entries = 32, bytes = 4096, kept = 1000 }

-- Texts -----------------------------------------------------------------------------------------------------------------

-- Returns the text of an entry, from texts as described above. `by`: "<session> <client>".
function trail_store.format_entry(ms, event, name, by, target, id, detail)
  return table.concat({ ms, event, name, by, target, id, detail }, " ")
end

-- Returns the text of a trail with one entry, whose message is there. `message_id`: encoded, nil for none.
function trail_store.format_first(message_id, entry)
  return "0 0" .. (message_id and " " .. message_id or "") .. "\n" .. entry
end

-- Returns end, number of omitted entries, message id ("" for none) and the entries of a trail, all as texts; nil if the text is
-- no trail.
function trail_store.parse(text)
  return string.match(text, "^(%d+) (%d+) ?(%S*)(\n.+)$")
end

-- Returns the text of a trail with another end, a number.
function trail_store.with_end(text, ended)
  return (string.gsub(text, "^%d+", string.format("%d", ended)))
end

-- Returns the text of a trail with one entry more.
function trail_store.append(text, entry)
  local ended, omitted, message_id, entries = trail_store.parse(text)
  entries = entries .. "\n" .. entry
  local _, count = string.gsub(entries, "\n", "")
  while count > 2 and (count > trail_store.entries or #entries > trail_store.bytes) do
    entries = string.gsub(entries, "^(\n[^\n]*)\n[^\n]*", "%1") -- without the second one
    count, omitted = count - 1, omitted + 1
  end
  return ended .. string.format(" %d", omitted) .. (message_id ~= "" and " " .. message_id or "") .. entries
end

-- Fields of meta, which is KEYS[1] ------------------------------------------------------------------------------------

-- Returns the field with the trail of this number.
function trail_store.field(number)
  return "trail:" .. number
end

-- Returns the field for a message id in a queue. `name`: encoded, of the queue or of one of its subqueues.
function trail_store.id_field(name, message_id)
  return "trail:=" .. queue.split_name(name) .. " " .. message_id
end

-- Returns the lookup id to which a message id in a queue leads; nil or false if no trail has it. `name` as above.
function trail_store.last_id(name, message_id)
  return redis.call("HGET", KEYS[1], trail_store.id_field(name, message_id))
end

-- Returns the text of the trail with this number; nil or false if there is none.
function trail_store.text(number)
  return redis.call("HGET", KEYS[1], trail_store.field(number))
end

-- Returns the fields with these trails, and their texts, false where there is none.
function trail_store.read(numbers)
  local fields = { nil }
  for n = 1, #numbers do fields[n] = trail_store.field(numbers[n]) end
  return fields, chunked.read(KEYS[1], fields)
end

-- Writes fields of meta: a list of field, text, field, text, ..., which may be empty.
function trail_store.write(changed)
  if changed[1] then chunked.fields(KEYS[1], changed) end
end

-- Adds an entry to each of these trails, if it exists. `entries`: one text for all, or a list with a text for each.
function trail_store.note(numbers, entries)
  local fields, texts = trail_store.read(numbers)
  local changed = { nil, nil } -- field, text, field, text, ...
  for n = 1, #fields do
    if texts[n] then
      local entry = type(entries) == "table" and entries[n] or entries
      changed[#changed + 1], changed[#changed + 2] = fields[n], trail_store.append(texts[n], entry)
    end
  end
  trail_store.write(changed)
end

-- Ends the trails with these numbers, whose messages are gone. They are kept as long as they are among the last `kept`.
function trail_store.finish(numbers)
  local ended = redis.call("HINCRBY", KEYS[1], "trails", #numbers) - #numbers
  for n = 1, #numbers do
    ended = ended + 1
    local field = trail_store.field(numbers[n])
    local place_field = string.format("trail:#%d", ended % trail_store.kept)
    local text, former = redis.call("HGET", KEYS[1], field), redis.call("HGET", KEYS[1], place_field)
    if former then trail_store.forget(former, ended) end
    if text then
      redis.call("HSET", KEYS[1], field, trail_store.with_end(text, ended), place_field, numbers[n])
    end
  end
end

-- Removes the trail `number`, whose place among the last `kept` the `ended`-th trail that has ended takes. A trail that went on
-- after it came to this place stays: its end is another one by now, or 0.
function trail_store.forget(number, ended)
  local field = trail_store.field(number)
  local own_end, _, message_id, entries = trail_store.parse(trail_store.text(number) or "")
  if tonumber(own_end) ~= ended - trail_store.kept then return end
  redis.call("HDEL", KEYS[1], field)
  if message_id == "" then return end
  -- The message id leads to this trail, unless another message with this id came later.
  local first_queue = string.match(entries, "^\n%d+ %S+ (%S+)")
  local last_id = trail_store.last_id(first_queue, message_id) or ""
  if string.sub(last_id, 3) ~= number then return end
  redis.call("HDEL", KEYS[1], trail_store.id_field(first_queue, message_id))
end
