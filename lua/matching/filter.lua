--- require lazy "matching/index"
--- require lazy "selector/selector"
--- used by admin/scheduled, lock_list, matching/arrivals, matching/search, message_list, waiting/match_waiters
-- A filter: which messages a reader wants. mqredis/commands/filters.py writes it as one text, and this module alone reads it: a
-- list of fields, each "\3", a letter and a value, then a NUL, then selector programs, each "<length>:<program>". A message
-- must agree with all of it. Fields stand in this order:
--
--   i  lookup_id
--   m c g  message_id, correlation_id, group_id, as in the index (matching/index)
--   n  sequence in the group
--   o  offset in the message of segments
--   h  a letter of the index and an identifier; repeated: every match has one of these (`any`)
--   @  after: lookup id behind which the search begins
--   G N O  next_group, next_sequence, next_offset: the next member of the group that the handle is in
--   y  browser whose marks count
--   Z  mark_ms: how long co-operative marks count, in ms, "-" for ever
--   f  letters of options:
--      L logical_order, A all_messages available, S all_segments available, C complete_message, W whole_group,
--      U unmarked messages only, H mark and h unmark for the browser, K mark_cooperative, k unmark_cooperative,
--      B in delivery order even if groups take turns (which any filter has)
--
-- Example: "\3csabc\0" wants the correlation id "abc", a text (s).
-- share: the part of a selector's time (selector/selector) that is used, since the rest of the call takes time, too.
local filter = { share = 0.9 }

-- These tables are made when the module is loaded: few calls have a filter, and all would pay for them.
filter.fields = {
  i = "lookup_id", m = "message_id", c = "correlation_id", g = "group_id", n = "sequence", o = "offset",
  ["@"] = "after", G = "next_group", N = "next_sequence", O = "next_offset", y = "browser", Z = "mark_ms",
}
filter.options = {
  L = "logical_order", A = "all_messages", S = "all_segments", C = "complete_message", W = "whole_group",
  U = "unmarked", H = "mark", h = "unmark", K = "mark_cooperative", k = "unmark_cooperative", B = "delivery_order",
}

-- Returns the filter as a table with its fields by the names above, and these:
--
--   any          list of the values of "h"
--   programs     list of compiled selectors (selector/selector)
--   named        it names an identifier or a place in a group
--   needs_group  the rest of a message's group decides, too
--   grouped      that, or it asks for logical order
--   marks        it changes marks
function filter.parse(text)
  local stop = string.find(text, "\0", 1, true)
  local f = { any = {}, programs = {} }
  for key, value in string.gmatch(string.sub(text, 1, stop - 1), "\3(.)([^\3]*)") do
    if key == "h" then
      f.any[#f.any + 1] = value
    elseif key == "f" then
      for letter in string.gmatch(value, ".") do f[filter.options[letter]] = true end
    else
      f[filter.fields[key]] = value
    end
  end
  f.sequence, f.offset = tonumber(f.sequence), tonumber(f.offset)
  f.next_sequence, f.next_offset = tonumber(f.next_sequence), tonumber(f.next_offset)
  f.named = f.message_id or f.correlation_id or f.group_id or f.sequence or f.offset
  f.needs_group = f.all_messages or f.all_segments or f.complete_message or f.whole_group
  f.grouped = f.needs_group or f.logical_order
  f.marks = f.mark or f.unmark or f.mark_cooperative or f.unmark_cooperative
  local at = stop + 1
  while at <= #text do
    local size, from = string.match(text, "^(%d+):()", at)
    at = from + tonumber(size)
    selector.load()
    local program = selector.compile(string.sub(text, from, at - 1))
    program.left = program.left * filter.share
    f.programs[#f.programs + 1] = program
  end
  return f
end

-- Has the call used up the time for selectors?
function filter.spent(f)
  for n = 1, #f.programs do
    if f.programs[n].left <= 0 then return true end
  end
  return false
end

-- Does the message agree with the filter, apart from its place in the queue and the rest of its group?
function filter.test(f, id, rec)
  if f.lookup_id and f.lookup_id ~= id then return false end
  if f.named then
    index.load()
    local r = index.fields(rec)
    if f.message_id and f.message_id ~= (r.message_id or "smq-" .. id) then return false end
    if f.correlation_id and f.correlation_id ~= r.correlation_id then return false end
    if f.group_id and f.group_id ~= r.group_id then return false end
    if f.sequence and f.sequence ~= r.sequence or f.offset and f.offset ~= r.offset then return false end
  end
  for n = 1, #f.programs do
    if not selector.test(f.programs[n], rec, id) then return false end
  end
  return true
end

-- Returns the identifier under which arriving messages find a waiting reader, behind its letter ("i": lookup id): the first
-- one in the text, which is the most selective one. nil if the filter names none, or depends on more than the message.
function filter.key(text)
  local head = string.sub(text, 1, string.find(text, "\0", 1, true))
  if string.find(head, "\3[Gf]") then return end
  local key, id = string.match(head, "^\3([imcg])([^%z\3]*)")
  if key then return key .. id end
end
