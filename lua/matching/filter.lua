--- require lazy "matching/index"
--- require lazy "selector/selector"
-- A filter: which messages a reader wants, as one text, which mqredis/commands/filters.py writes and this module alone
-- reads. Used by matching/search, and by waiting/match_waiters for readers that wait. The text is a list of fields "\3<key>
-- <value>" (without the space), a NUL, then selector programs, each "<length>:<program>". A message must agree with all of it.
--
--   i  lookup id                            m c g  message, correlation and group id, as in the index (matching/index)
--   n  sequence in the group                o      offset in the message of segments
--   h  index key and id; repeated: every match has one of these ids
--   @  lookup id behind which the search begins
--   G N O  group, sequence and offset: the next member of the group that the handle is in
--   y  browser whose marks count            Z  interval of the co-operative marks in ms, "-" for ever
--   f  letters: L logical order, A all messages available, S all segments available, C complete message, W whole group,
--      U unmarked only, H and K set the browser's and the co-operative marks, h and k remove them, B in delivery order even
--      if groups take turns
--
-- Example: "\3csabc\0" wants the correlation id "abc", a text (s).
-- share: the part of a selector's time (selector/selector) that is used, since the rest of the call takes time, too.
local filter = { share = 0.9 }

function filter.parse(text)
  local stop = string.find(text, "\0", 1, true)
  local f = { f = "", any = {}, programs = {} }
  for key, value in string.gmatch(string.sub(text, 1, stop - 1), "\3(.)([^\3]*)") do
    if key == "h" then
      f.any[#f.any + 1] = value
    else
      f[key] = value
    end
  end
  f.n, f.o = tonumber(f.n), tonumber(f.o)
  f.named = f.m or f.c or f.g or f.n or f.o
  f.grouped = string.find(f.f, "[LASCW]") ~= nil
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

function filter.has(f, letter)
  return string.find(f.f, letter, 1, true) ~= nil
end

-- Has the call used up the time for selectors?
function filter.spent(f)
  for n = 1, #f.programs do
    if f.programs[n].left <= 0 then return true end
  end
  return false
end

-- Does the message agree with the filter, apart from its place in the queue and the rest of its group?
function filter.test(f, lid, rec)
  if f.i and f.i ~= lid then return false end
  if f.named then
    index.load()
    local r = index.fields(rec)
    if (f.m and f.m ~= (r.m or "smq-" .. lid)) or (f.c and f.c ~= r.c) or (f.g and f.g ~= r.g)
      or (f.n and f.n ~= r.n) or (f.o and f.o ~= r.o) then
      return false
    end
  end
  for n = 1, #f.programs do
    if not selector.test(f.programs[n], rec, lid) then return false end
  end
  return true
end

-- The index key and id under which arriving messages find a waiting reader: the most selective identifier of its filter.
-- Nothing if the filter names none, or depends on more than the message. Works on the text, whose fields have this order.
function filter.key(text)
  local head = string.sub(text, 1, string.find(text, "\0", 1, true))
  if string.find(head, "\3[Gf]") then return end
  local key, id = string.match(head, "^\3([imcg])([^%z\3]*)")
  if key then return key .. id end
end
