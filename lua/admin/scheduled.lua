--- require "core/position"
--- require "core/timers"
--- require "admin/ordered"
--- require lazy "matching/filter"
--- used by admin/bulk_progress
-- Searches the delayed messages of a queue, in the order in which they become available (features/delivery_delay), for actions
-- on many of them (bulk.lua). The list that QueueManager.scheduled shows, also of resting messages, is in message_list.lua.
--
-- A place is "<ms><member of q.timers>": the search goes on behind this timer, of whatever kind (core/timers); "" for the start. It
-- is a part of the text that admin/bulk_progress describes. Tests: tests/operator/test_bulk.py.
--
-- most: timers that one call looks at; page: those that one command reads.
local scheduled = { most = 1000, page = 100 }

-- Returns up to `count` entries that agree with a filter (filter.test, which does not ask for groups and marks), each with the
-- field `delayed_until`, in ms; and the place to go on from, nil if the search is complete.
function scheduled.look(q, filter_text, place, count)
  local criteria = filter.parse(filter_text)
  local found, left, letter = { nil }, scheduled.most, timers.letters.delay
  local score, member = string.match(place, "^(%d+)(%a.*)$")
  score, member = score or "", member or ""
  while left > 0 do
    local rows = ordered.page(q.timers, score, member, scheduled.page) -- member, score, member, score, ...
    local ids, dues = { nil }, { nil }
    for n = 1, #rows, 2 do
      local id = string.sub(rows[n], 2)
      if string.sub(rows[n], 1, 1) == letter then ids[#ids + 1], dues[id] = id, rows[n + 1] end
    end
    local entries = position.read(q, ids)
    for n = 1, #entries do
      local entry = entries[n]
      local due = dues[entry.id]
      if filter.test(criteria, entry.id, entry.rec) then
        entry.delayed_until = tonumber(due)
        found[#found + 1] = entry
        if #found == count then return found, due .. letter .. entry.id end
      end
      -- The time for selectors is used up: the next call goes on here.
      if filter.out_of_time(criteria) then return found, due .. letter .. entry.id end
    end
    if #rows < scheduled.page * 2 then return found end
    member, score = rows[#rows - 1], rows[#rows]
    left = left - scheduled.page
  end
  return found, string.format("%.0f", score) .. member -- in plain digits, also the score of a held dedup key
end
