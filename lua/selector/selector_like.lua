--- used by selector/selector
-- The LIKE of selectors, on characters of UTF-8. A pattern is split at its percent signs into segments, each of which is looked
-- for behind the one before; so a pattern takes no more than (characters of text) * (characters of pattern) steps. User text
-- never becomes a Lua pattern. mqredis/selector/like.py does the same in Python, budgets included.
local selector_like = {}

-- Returns a function that tells of a text whether it matches. `segments`: texts, in which \255 stands for an underscore. The
-- function returns true or false; or nil if the work would exceed `budget`, in characters of the text (four times as many if
-- string.find searches, and four comparisons for each character otherwise).
function selector_like.new(segments, budget)
  local find, sub = string.find, string.sub
  local first, last, middle = segments[1], segments[#segments], {}
  for n = 2, #segments - 1 do middle[n - 1] = segments[n] end
  local wild = find(table.concat(segments), "\255", 1, true)

  -- Matches a pattern without underscores. It compares bytes: a UTF-8 text is found in another one only at borders of
  -- characters.
  local function plain(text)
    if #segments == 1 then return text == first end
    if #middle > 0 and #text > budget * 4 then
      local _, inner = string.gsub(text, "[\128-\191]", "")
      if #text - inner > budget * 4 then return nil end
    end
    local at, stop = #first + 1, #text - #last
    if at > stop + 1 or sub(text, 1, #first) ~= first or sub(text, stop + 1) ~= last then return false end
    for n = 1, #middle do
      local from, to = find(text, middle[n], at, true)
      if not from or to > stop then return false end
      at = to + 1
    end
    return true
  end
  if not wild then return plain end

  -- Returns the characters of a text as a list; nil if they are more than `most`.
  local function characters(text, most)
    local out, count = {}, 0
    for char in string.gmatch(text, "[%z\1-\127\192-\255][\128-\191]*") do
      count = count + 1
      if count > most then return nil end
      out[count] = char
    end
    return out
  end

  -- Does a segment match the characters from place `at` on? There are enough of them.
  local function fits(segment, chars, at)
    for n = 1, #segment do
      if segment[n] ~= "\255" and segment[n] ~= chars[at + n - 1] then return false end
    end
    return true
  end

  -- Finds each of the middle segments in turn, at its leftmost place between `at` and `stop`.
  local function seek_in(chars, at, stop)
    local steps = 0
    for n = 1, #middle do
      local segment, length, n_fits = middle[n], #middle[n], false
      while not n_fits do
        if at + length - 1 > stop then return false end
        n_fits = true
        for k = 1, length do
          steps = steps + 1
          if segment[k] ~= "\255" and segment[k] ~= chars[at + k - 1] then
            n_fits = false
            break
          end
        end
        if n_fits then
          at = at + length
        elseif steps > budget * 4 then
          return nil
        else
          at = at + 1
        end
      end
    end
    return true
  end

  first, last = characters(first, #first), characters(last, #last)
  for n = 1, #middle do middle[n] = characters(middle[n], #middle[n]) end
  return function(text)
    local chars = characters(text, budget)
    if not chars then return nil end
    if #segments == 1 then return #chars == #first and fits(first, chars, 1) end
    local at, stop = #first + 1, #chars - #last
    if at > stop + 1 or not fits(first, chars, 1) or not fits(last, chars, stop + 1) then return false end
    return seek_in(chars, at, stop)
  end
end
