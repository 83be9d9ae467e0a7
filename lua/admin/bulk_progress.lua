--- require "core/context"
--- require "core/position"
--- require "core/timers"
--- require lazy "admin/scheduled"
--- require lazy "matching/search"
--- used by bulk
-- Which messages a call of bulk.lua takes. An action takes several calls; `progress` is what one leaves to the next, as a text
-- that the client sends back:
--
--   "<changed>,<locked>,<missing>,<newest>,<due>,<log entry>,<phase>,<place>"
--   example: 256,0,0,00000000001a2b,0,040000000000002a,a,0300000000000007
--
--   changed    messages changed or counted so far
--   locked, missing   how many of the ids that were given belong to locked messages, and how many to none of the states asked for
--   newest     SequentialID, 14 hex digits: messages with a later one came after the first call, and are not touched
--   due        for the action due: the new time in ms of broker time; 0 for other actions
--   log_entry  lookup id of the action's entry in the log of actions (admin/operator); "" if none was written
--   phase      d: delayed messages are searched; a: available ones, which come next
--   place      where that search goes on: a lookup id; of delayed messages a place of admin/scheduled
--
-- Change together with: _CURSOR in mqredis/operations/bulk.py, which checks the text that comes back
-- (tests/contract/test_arguments.py compares). Tests of actions in several calls: tests/operator/test_bulk.py.
local bulk_progress = {}

-- Returns the progress of an action that begins. `states`, here and below: ARGV[7] of bulk.lua, "a", "d" or "da".
function bulk_progress.new(states, due)
  return { changed = 0, locked = 0, missing = 0, newest = context.last_sequential(), due = due,
    log_entry = "", phase = string.sub(states, 1, 1), place = "" }
end

-- Returns the progress of this text.
function bulk_progress.parse(text)
  local changed, locked, missing, newest, due, log_entry, phase, place =
    string.match(text, "^(%d+),(%d+),(%d+),(%x+),(%d+),(%x*),(.),(.*)$")
  return { changed = changed + 0, locked = locked + 0, missing = missing + 0, newest = newest, due = due + 0,
    log_entry = log_entry, phase = phase, place = place }
end

-- Returns the text of a progress.
function bulk_progress.format(progress)
  local p = progress
  return string.format("%d,%d,%d,%s,%.0f,%s,%s,%s", p.changed, p.locked, p.missing, p.newest, p.due, p.log_entry,
    p.phase, p.place)
end

-- Returns those of these messages that are in one of the states, as entries; those that are delayed have the field
-- `delayed_until`, in ms. Counts the others in progress.locked and progress.missing.
function bulk_progress.by_ids(q, ids, states, progress)
  local entries, found = position.read(q, ids), { nil }
  progress.missing = progress.missing + #ids - #entries
  for n = 1, #entries do
    local entry = entries[n]
    local is_available = redis.call("ZSCORE", q.available, entry.id)
    entry.delayed_until = not is_available and tonumber(timers.delayed_until(q, entry.id) or nil) or nil
    if not is_available and not entry.delayed_until then
      progress.locked = progress.locked + 1
    elseif string.find(states, is_available and "a" or "d", 1, true) then
      found[#found + 1] = entry
    else
      progress.missing = progress.missing + 1
    end
  end
  return found
end

-- Returns up to `count` entries that match a filter, and the place where the next call goes on, nil if the search is complete.
-- Searches delayed messages first, which have the field `delayed_until`, in ms: one whose delay ends between two calls is found
-- among the available ones then.
function bulk_progress.by_filter(q, filter_text, states, progress, count)
  if progress.phase == "d" then
    local found, place = scheduled.look(q, filter_text, progress.place, count)
    if place or states == "d" then return found, place end
    progress.phase, progress.place = "a", ""
    if found[1] then return found, "" end
  end
  local found, place = search.look(q, filter_text, progress.place, count)
  if not found[1] then return found, place end
  local last = found[#found].id
  if #found == count then return found, last end
  -- A search that has found something does not say whether it is complete.
  local rest, further = search.look(q, filter_text, last, 1)
  return found, rest[1] and last or further
end
