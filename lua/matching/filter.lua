--- require lazy "matching/index"
--- require lazy "selector/selector"
-- What a reader wants, as one text (mqredis/commands/filters.py writes it): fields as in a head, NUL, then selector
-- programs, each length ":" program; all of it must hold.
--
--   i lookup id   m c g ids   n sequence   o offset     h (repeated) index key and id, one of which every match has
--   @ id behind which the search begins                 G N O the next member of the group that the handle is in
--   y handle whose marks count   Z interval of the co-operative marks in ms, "-" for ever; "" not in the set
--   f letters: L logical order, A all messages, S all segments available, C complete message, W whole group,
--     U unmarked only, H K set and h k take away handle and co-operative marks, B by delivery order, not by turns
--
-- share: of the time that a selector may take (selector/selector), since the rest of the call takes some, too.
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

-- Has the call no time left for more records?
function filter.spent(f)
  for n = 1, #f.programs do
    if f.programs[n].left <= 0 then return true end
  end
  return false
end

-- Does the message itself agree, wherever it is and whatever group it belongs to?
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

-- The key under which a waiting reader is found by what arrives: its most telling identifier. Works on the text,
-- where the fields stand in this order; nothing if it names none, or wants more than the message itself.
function filter.key(text)
  local head = string.sub(text, 1, string.find(text, "\0", 1, true))
  if string.find(head, "\3[Gf]") then return end
  local key, id = string.match(head, "^\3([imcg])([^%z\3]*)")
  if key then return key .. id end
end
