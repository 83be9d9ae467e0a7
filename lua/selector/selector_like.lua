-- LIKE on characters, without Lua patterns from user text and without backtracking over more than one segment.
-- mqredis/selector/like.py is the same in Python, budgets included.
local selector_like = {}

-- A matcher of texts. `segments` is the pattern split at its percent signs; \255 in it stands for an underscore.
-- The matcher answers true, false, or nil when the work would exceed `budget`: characters of a text to search in,
-- four times as many where C does it, and four comparisons for each.
function selector_like.new(segments, budget)
  local find, sub = string.find, string.sub
  local first, last, middle = segments[1], segments[#segments], {}
  for n = 2, #segments - 1 do middle[n - 1] = segments[n] end
  local wild = find(table.concat(segments), "\255", 1, true)

  -- Without underscores: bytes, since one UTF-8 text is found in another only at the borders of characters.
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

  -- The characters of a text, at most `most` of them.
  local function characters(text, most)
    local out, count = {}, 0
    for char in string.gmatch(text, "[%z\1-\127\192-\255][\128-\191]*") do
      count = count + 1
      if count > most then return nil end
      out[count] = char
    end
    return out
  end

  local function fits(segment, chars, at)
    for n = 1, #segment do
      if segment[n] ~= "\255" and segment[n] ~= chars[at + n - 1] then return false end
    end
    return true
  end

  -- Each segment at its leftmost place in turn, between `at` and `stop`.
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
