--- used by selector/selector
-- The LIKE of selectors, on characters of UTF-8. A pattern is split at its percent signs into segments, each of which is looked
-- for behind the one before; so a pattern takes no more than (characters of text) * (characters of pattern) steps. User text
-- never becomes a Lua pattern. mqredis/selector/like.py does the same in Python, budgets included.
--
-- Example: the pattern "ab%c_d%e" has the segments "ab", "c" any "d", and "e". A text matches if it begins with the prefix
-- "ab", ends with the suffix "e", and has the inner segment between them.
--
-- any: the byte that stands for an underscore in a segment. It is in no text of UTF-8.
local selector_like = { any = "\255" }

-- Returns a function that tells of a text whether it matches. `segments`: texts. The function returns true or false; or nil if the
-- work would exceed `budget`, in characters of the text (four times as many if string.find searches, and four comparisons for
-- each character otherwise).
function selector_like.new(segments, budget)
  local find, sub, any = string.find, string.sub, selector_like.any
  local prefix, suffix, inner = segments[1], segments[#segments], {}
  for n = 2, #segments - 1 do inner[n - 1] = segments[n] end

  -- Matches a pattern without underscores. It compares bytes: a UTF-8 text is found in another one only at borders of
  -- characters.
  local function matches_bytes(text)
    if #segments == 1 then return text == prefix end
    if #inner > 0 and #text > budget * 4 then
      local _, continuation_bytes = string.gsub(text, "[\128-\191]", "")
      if #text - continuation_bytes > budget * 4 then return nil end
    end
    local at, stop = #prefix + 1, #text - #suffix
    if at > stop + 1 or sub(text, 1, #prefix) ~= prefix or sub(text, stop + 1) ~= suffix then return false end
    for n = 1, #inner do
      local from, to = find(text, inner[n], at, true)
      if not from or to > stop then return false end
      at = to + 1
    end
    return true
  end
  if not find(table.concat(segments), any, 1, true) then return matches_bytes end

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
  prefix, suffix = characters(prefix, #prefix), characters(suffix, #suffix)
  for n = 1, #inner do inner[n] = characters(inner[n], #inner[n]) end

  -- Does a segment match the characters from place `at` on? There are enough of them. Also returns how many it has compared.
  local function fits(segment, chars, at)
    for n = 1, #segment do
      if segment[n] ~= any and segment[n] ~= chars[at + n - 1] then return false, n end
    end
    return true, #segment
  end

  -- Finds each of the inner segments in turn, at its leftmost place between `at` and `stop`. Returns true, false, or nil.
  local function finds_inner(chars, at, stop)
    local compared = 0
    for n = 1, #inner do
      local segment, found = inner[n], false
      while not found do
        local steps
        if at + #segment - 1 > stop then return false end
        found, steps = fits(segment, chars, at)
        compared = compared + steps
        if not found and compared > budget * 4 then return nil end
        at = at + (found and #segment or 1)
      end
    end
    return true
  end

  return function(text)
    local chars = characters(text, budget)
    if not chars then return nil end
    if #segments == 1 then return #chars == #prefix and (fits(prefix, chars, 1)) end
    local at, stop = #prefix + 1, #chars - #suffix
    if at > stop + 1 or not fits(prefix, chars, 1) or not fits(suffix, chars, stop + 1) then return false end
    return finds_inner(chars, at, stop)
  end
end
