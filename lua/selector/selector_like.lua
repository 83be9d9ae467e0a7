--- used by selector/selector_condition
-- The LIKE of selectors, on characters of UTF-8. A pattern is split at its percent signs into segments, each of which is looked
-- for behind the one before; so a pattern takes no more than (characters of text) * (characters of pattern) steps. User text
-- never becomes a Lua pattern. mqredis/selector/like.py does the same in Python, budgets included (tests/selector/test_like.py).
--
-- Example: the pattern "ab%c_d%e" has the segments "ab", "c" any "d", and "e". A text matches if it begins with the first segment,
-- the prefix "ab", ends with the last one, the suffix "e", and has the inner segment between them. A pattern without a percent
-- sign has one segment, which is the prefix alone.
--
-- A matcher is a function that tells of a text whether it matches: it returns true or false; or nil if the work would exceed
-- `budget`, in characters of the text (`factor` times as many if string.find searches, and so many comparisons for each character
-- otherwise).
--
-- any: the byte that stands for an underscore in a segment. It is in no text of UTF-8. factor: FACTOR in mqredis/selector/like.py.
local selector_like = { any = "\255", factor = 4 }

-- Returns the matcher of a pattern. `segments`: texts.
function selector_like.new(segments, budget)
  local inner = {}
  for n = 2, #segments - 1 do inner[n - 1] = segments[n] end
  local has_any = string.find(table.concat(segments), selector_like.any, 1, true)
  local make = has_any and selector_like.match_characters or selector_like.match_bytes
  return make(segments[1], inner, #segments > 1 and segments[#segments] or nil, budget)
end

-- Patterns without underscores ------------------------------------------------------------------------------------------

-- Returns the matcher of a pattern without underscores. `suffix`: nil if the pattern has one segment. It compares bytes: a UTF-8
-- text is found in another one only at borders of characters.
function selector_like.match_bytes(prefix, inner, suffix, budget)
  local sub = string.sub
  return function(text)
    if not suffix then return text == prefix end
    if #inner > 0 and selector_like.is_longer(text, budget * selector_like.factor) then return nil end
    local at, stop = #prefix + 1, #text - #suffix
    if at > stop + 1 or sub(text, 1, #prefix) ~= prefix or sub(text, stop + 1) ~= suffix then return false end
    for n = 1, #inner do
      local from, to = string.find(text, inner[n], at, true)
      if not from or to > stop then return false end
      at = to + 1
    end
    return true
  end
end

-- Has a text more characters than this?
function selector_like.is_longer(text, most)
  if #text <= most then return false end
  local _, continuation_bytes = string.gsub(text, "[\128-\191]", "")
  return #text - continuation_bytes > most
end

-- Patterns with underscores ---------------------------------------------------------------------------------------------

-- Returns the matcher of a pattern with underscores. Arguments as of selector_like.match_bytes.
function selector_like.match_characters(prefix, inner, suffix, budget)
  local fits, inner_chars = selector_like.fits, {}
  local prefix_chars = selector_like.characters(prefix, #prefix)
  local suffix_chars = suffix and selector_like.characters(suffix, #suffix)
  for n = 1, #inner do inner_chars[n] = selector_like.characters(inner[n], #inner[n]) end
  return function(text)
    local chars = selector_like.characters(text, budget)
    if not chars then return nil end
    if not suffix then return #chars == #prefix_chars and (fits(prefix_chars, chars, 1)) end
    local at, stop = #prefix_chars + 1, #chars - #suffix_chars
    if at > stop + 1 or not fits(prefix_chars, chars, 1) then return false end
    if not fits(suffix_chars, chars, stop + 1) then return false end
    return selector_like.has_in_turn(chars, inner_chars, at, stop, budget * selector_like.factor)
  end
end

-- Returns the characters of a text as a list; nil if they are more than `most`.
function selector_like.characters(text, most)
  local chars, count = {}, 0
  for char in string.gmatch(text, "[%z\1-\127\192-\255][\128-\191]*") do
    count = count + 1
    if count > most then return nil end
    chars[count] = char
  end
  return chars
end

-- Does a segment match the characters from place `at` on? There are enough of them. Also returns how many it has compared.
function selector_like.fits(segment, chars, at)
  local any = selector_like.any
  for n = 1, #segment do
    if segment[n] ~= any and segment[n] ~= chars[at + n - 1] then return false, n end
  end
  return true, #segment
end

-- Are these segments in the text, one behind the other, each at its leftmost place, between the places `at` and `stop`? Returns
-- true, false, or nil if that takes more than `most` comparisons.
function selector_like.has_in_turn(chars, segments, at, stop, most)
  local compared = 0
  for n = 1, #segments do
    local segment, found = segments[n], false
    while not found do
      local steps
      if at + #segment - 1 > stop then return false end
      found, steps = selector_like.fits(segment, chars, at)
      compared = compared + steps
      if not found and compared > most then return nil end
      at = at + (found and #segment or 1)
    end
  end
  return true
end
