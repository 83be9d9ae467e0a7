--- require lazy "matching/index"
--- require lazy "selector/selector"
--- used by admin/scheduled, lock_list, lookup, matching/arrivals, matching/search, message_list, waiting/match_waiters
-- A filter says which messages a reader wants. It is a text, which mqredis/commands/filters.py writes and this module alone reads;
-- filter.parse makes a table of it, which is called `criteria` in all files. A message must agree with all of it. The text:
-- a list of fields, each "\3", a letter and a value; then a NUL; then selector programs, each "<length>:<program>".
--
--   example: "\3csabc\0" wants the correlation id "abc", a text (s)
--
-- Letters of fields, in the order in which the fields stand, with the names that they have in `criteria`:
--
--   i  lookup_id
--   m c g  message_id, correlation_id, group_id: identifiers as they are in the index (matching/index)
--   n  sequence in the group
--   o  offset in the message of segments
--   h  one of `alternatives`, a letter of the index and an identifier; repeated: every match has one of these identifiers
--   @  after: lookup id behind which the search begins
--   G N O  next_group, next_sequence, next_offset: the next member of the group that the handle is in
--   y  browser whose marks count (matching/mark)
--   Z  mark_ms: how long co-operative marks count, in ms, "-" for ever
--   f  letters of options, each true in `criteria`:
--      L logical_order, A all_messages available, S all_segments available, C complete_message, W whole_group,
--      U unmarked messages only, H mark and h unmark for the browser, K mark_cooperative, k unmark_cooperative,
--      B delivery_order: nothing looks at it, but a reader with a filter searches in this order even if groups take turns
--
-- search.refuses (matching/search) and filter.key look into the text without parsing it. The text of a waiting reader is stored,
-- and parsed in the scripts of senders, which fail at an unknown letter. So a new field or option
--
--   stands above, in filter.field_names or filter.option_names, and in mqredis/commands/filters.py, which writes the letters in
--   this order (tests/contract/test_constants.py compares), and takes a new schema number (core/manager_config)
--   is looked at in filter.test if the message alone tells whether it agrees, else in search.admits (matching/search)
--   makes arrivals.suffice (matching/arrivals) return false if its answer changes while a message waits
--
-- Tests: tests/matching, and at random with tests/model/matching.py tests/property/test_matching.py.
--
-- selector_share: the part of a selector's time (selector/selector) that is used, since the rest of the call takes time, too.
local filter = { selector_share = 0.9 }

-- The names in `criteria` by their letters. These tables are made when the module is loaded: few calls have a filter, and all
-- would pay for them.
filter.field_names = {
  i = "lookup_id", m = "message_id", c = "correlation_id", g = "group_id", n = "sequence", o = "offset",
  ["@"] = "after", G = "next_group", N = "next_sequence", O = "next_offset", y = "browser", Z = "mark_ms",
}
filter.option_names = {
  L = "logical_order", A = "all_messages", S = "all_segments", C = "complete_message", W = "whole_group",
  U = "unmarked", H = "mark", h = "unmark", K = "mark_cooperative", k = "unmark_cooperative", B = "delivery_order",
}

-- Returns the criteria of a filter; the text is not empty. They are a table with the fields and options of the filter by the names
-- above (texts; sequences and offsets are numbers), and these fields:
--
--   alternatives   list of the values of "h"
--   selectors      list of compiled selectors (selector/selector)
--   names_message  not nil if it names an identifier or a place in a group
--   needs_group    not nil if the rest of a message's group decides, too
--   grouped        not nil if that is so, or it asks for logical order
--   changes_marks  not nil if it sets or removes browse marks
--   taken_groups   only matching/search sets and uses it
function filter.parse(text)
  local head_end = string.find(text, "\0", 1, true)
  local criteria = filter.parse_fields(string.sub(text, 1, head_end - 1))
  criteria.sequence, criteria.offset = tonumber(criteria.sequence), tonumber(criteria.offset)
  criteria.next_sequence, criteria.next_offset = tonumber(criteria.next_sequence), tonumber(criteria.next_offset)
  criteria.names_message = criteria.message_id or criteria.correlation_id or criteria.group_id or criteria.sequence
    or criteria.offset
  criteria.needs_group = criteria.all_messages or criteria.all_segments or criteria.complete_message
    or criteria.whole_group
  criteria.grouped = criteria.needs_group or criteria.logical_order
  criteria.changes_marks = criteria.mark or criteria.unmark or criteria.mark_cooperative
    or criteria.unmark_cooperative
  criteria.selectors = filter.parse_selectors(text, head_end + 1)
  return criteria
end

-- Returns a table of the fields, as texts, and the options.
function filter.parse_fields(text)
  local criteria = { alternatives = {} }
  for letter, value in string.gmatch(text, "\3(.)([^\3]*)") do
    if letter == "h" then
      criteria.alternatives[#criteria.alternatives + 1] = value
    elseif letter == "f" then
      for option in string.gmatch(value, ".") do criteria[filter.option_names[option]] = true end
    else
      criteria[filter.field_names[letter]] = value
    end
  end
  return criteria
end

-- Returns the compiled selectors of a filter, whose programs begin at place `at` of the text.
function filter.parse_selectors(text, at)
  local selectors = {}
  while at <= #text do
    local size, from = string.match(text, "^(%d+):()", at)
    at = from + tonumber(size)
    local compiled = selector.compile(string.sub(text, from, at - 1))
    compiled.time_left = compiled.time_left * filter.selector_share
    selectors[#selectors + 1] = compiled
  end
  return selectors
end

-- Has the call used up the time for one of the selectors? Then it ends, and the client's next call goes on.
function filter.out_of_time(criteria)
  for n = 1, #criteria.selectors do
    if criteria.selectors[n].time_left <= 0 then return true end
  end
  return false
end

-- Returns the microseconds that the call may still spend on the selectors, all of them together; 0 without one.
function filter.time_left(criteria)
  local left = 0
  for n = 1, #criteria.selectors do left = left + criteria.selectors[n].time_left end
  return left
end

-- Does a message agree with the criteria? Its place in the queue, the rest of its group and its marks are not looked at:
-- search.admits does that.
function filter.test(criteria, id, rec)
  if criteria.lookup_id and criteria.lookup_id ~= id then return false end
  if criteria.names_message and not filter.test_names(criteria, id, rec) then return false end
  for n = 1, #criteria.selectors do
    if not selector.test(criteria.selectors[n], rec, id) then return false end
  end
  return true
end

-- Does a message have the identifiers and the place in a group that the criteria name?
function filter.test_names(criteria, id, rec)
  local fields = index.fields(rec)
  if criteria.message_id and criteria.message_id ~= index.message_id(fields, id) then return false end
  if criteria.correlation_id and criteria.correlation_id ~= fields.correlation_id then return false end
  if criteria.group_id and criteria.group_id ~= fields.group_id then return false end
  if criteria.sequence and criteria.sequence ~= fields.sequence then return false end
  return not criteria.offset or criteria.offset == fields.offset
end

-- Returns the identifier under which arriving messages find a waiting reader with this filter (waiting/match_waiters), behind
-- its letter, m, c or g as in the index, or i for a lookup id: the first one in the text, which is the most selective one.
-- Returns nil if the filter names none, or depends on more than the message.
function filter.key(text)
  local head = string.sub(text, 1, string.find(text, "\0", 1, true))
  if string.find(head, "\3[Gf]") then return end
  local letter, id = string.match(head, "^\3([imcg])([^%z\3]*)")
  if letter then return letter .. id end
end
