--- require lazy "selector/selector_like"
--- require lazy "selector/selector_operand"
--- require lazy "selector/selector_program"
--- require lazy "selector/selector_value"
--- used by selector/selector
-- The conditions of a selector: functions that tell of a message whether a part of the selector is true, false or unknown
-- (selector/selector describes them, and says what to change together).
--
-- In a program a letter begins each condition; selector_condition.makers says what it stands for. A maker reads what follows the
-- letter, as mqredis/selector/encode.py writes it, and returns the condition. Its arguments:
--
--   reader  of the program (selector/selector_program)
--   plain   true if it matters only whether the condition is true, not whether it is false or unknown. That holds from the root
--           down through AND and OR, where faster closures will do
local selector_condition = {}

-- Reads a condition. Returns it.
function selector_condition.read(reader, plain)
  local make = selector_condition.makers[selector_program.letter(reader)]
  return make(reader, plain)
end

-- Reads a count and as many conditions. Returns them as a list.
function selector_condition.read_list(reader, plain)
  local items = {}
  for n = 1, selector_program.count(reader) do items[n] = selector_condition.read(reader, plain) end
  return items
end

-- Constants -------------------------------------------------------------------------------------------------------------

function selector_condition.always() return function() return true end end

function selector_condition.never() return function() return false end end

function selector_condition.unknown() return function() return nil end end

-- AND, OR, NOT ----------------------------------------------------------------------------------------------------------

-- AND. In the program: a list of conditions.
function selector_condition.all(reader, plain)
  local items = selector_condition.read_list(reader, plain)
  local length = #items
  if plain and length == 2 then
    local first, second = items[1], items[2]
    return function(rec, head_end, id) return first(rec, head_end, id) and second(rec, head_end, id) end
  end
  return function(rec, head_end, id)
    local result = true
    for n = 1, length do
      local found = items[n](rec, head_end, id)
      if found == false or (plain and not found) then return false end
      if found == nil then result = nil end
    end
    return result
  end
end

-- OR. In the program: a list of conditions.
function selector_condition.any(reader, plain)
  local items = selector_condition.read_list(reader, plain)
  local length = #items
  return function(rec, head_end, id)
    local result = false
    for n = 1, length do
      local found = items[n](rec, head_end, id)
      if found then return true end
      if found == nil then result = nil end
    end
    return result
  end
end

-- NOT. In the program: a condition.
function selector_condition.negation(reader)
  local item = selector_condition.read(reader, false)
  return function(rec, head_end, id)
    local found = item(rec, head_end, id)
    if found == nil then return nil end
    return not found
  end
end

-- Comparisons -----------------------------------------------------------------------------------------------------------

-- In the program: an operator of selector_value.tests, and two operands.
function selector_condition.comparison(reader, plain)
  local op = selector_program.letter(reader)
  local left, about_left = selector_operand.read(reader)
  local right, about_right = selector_operand.read(reader)
  if plain and op == "=" and about_left.property and about_right.kind == "s" then
    return selector_condition.property_is_text(about_left.property, about_right.content)
  end
  if about_right.kind == "i" or about_right.kind == "d" then
    return selector_condition.comparison_with_number(op, left, about_right.kind, about_right.content)
  end
  local compare = selector_value.compare
  return function(rec, head_end, id)
    local kind, content = left(rec, head_end, id)
    return compare(op, kind, content, right(rec, head_end, id))
  end
end

-- Property = 'text', the most frequent condition: one search finds name and value together (core/record; 15: record.head_at), and
-- the byte behind them, below 4, ends the property. For a `plain` one.
function selector_condition.property_is_text(name, text)
  local find, byte, field = string.find, string.byte, "\1" .. name .. "\2s" .. text
  return function(rec, head_end)
    local _, last = find(rec, field, 15, true)
    return last ~= nil and last < head_end and byte(rec, last + 1) < 4
  end
end

-- Compares an operand with a number that Lua has exactly.
function selector_condition.comparison_with_number(op, operand, number_kind, number)
  local test, compare = selector_value.tests[op], selector_value.compare
  return function(rec, head_end, id)
    local kind, content = operand(rec, head_end, id)
    if kind == "i" or kind == "d" then return test(content, number) end
    return compare(op, kind, content, number_kind, number)
  end
end

-- BETWEEN. In the program: an operand, and its bounds.
function selector_condition.between(reader)
  return selector_condition.range(reader, "g", "l", false)
end

-- NOT BETWEEN. In the program: an operand, and its bounds.
function selector_condition.not_between(reader)
  return selector_condition.range(reader, "<", ">", true)
end

-- `low_op`, `high_op`: how the operand is compared with the bounds; `decisive`: the result as soon as one comparison has it.
function selector_condition.range(reader, low_op, high_op, decisive)
  local item = selector_operand.read(reader)
  local low = selector_operand.read(reader)
  local high = selector_operand.read(reader)
  local compare = selector_value.compare
  return function(rec, head_end, id)
    local kind, content = item(rec, head_end, id)
    local with_low = compare(low_op, kind, content, low(rec, head_end, id))
    if with_low == decisive then return decisive end
    local with_high = compare(high_op, kind, content, high(rec, head_end, id))
    if with_high == decisive then return decisive end
    if with_low == nil or with_high == nil then return nil end
    return not decisive
  end
end

-- Conditions on one operand ---------------------------------------------------------------------------------------------

-- IN. In the program: an operand, a count, and as many texts. Unknown for what is no text, as is LIKE.
function selector_condition.one_of(reader)
  local item, is_listed = selector_operand.read(reader), {}
  for _ = 1, selector_program.count(reader) do is_listed[selector_program.chunk(reader)] = true end
  return function(rec, head_end, id)
    local kind, content = item(rec, head_end, id)
    if kind ~= "s" then return nil end
    return is_listed[content] or false
  end
end

-- LIKE. In the program: an operand, a count, and as many segments of the pattern (selector/selector_like).
function selector_condition.like(reader)
  local item, segments = selector_operand.read(reader), {}
  for n = 1, selector_program.count(reader) do segments[n] = selector_program.chunk(reader) end
  local matches, compiled = selector_like.new(segments, reader.like_budget), reader.compiled
  local unescape = selector_value.unescape
  return function(rec, head_end, id)
    local kind, content = item(rec, head_end, id)
    if kind ~= "s" then return nil end
    compiled.time_left = compiled.time_left - #content / 5 -- it takes longer than selector.test estimates
    return matches(unescape(content))
  end
end

-- IS NULL. In the program: an operand.
function selector_condition.is_null(reader)
  local item = selector_operand.read(reader)
  return function(rec, head_end, id) return item(rec, head_end, id) == nil end
end

-- A field that is true or false. In the program: an operand.
function selector_condition.boolean(reader)
  local item = selector_operand.read(reader)
  return function(rec, head_end, id)
    local kind, content = item(rec, head_end, id)
    if kind == "b" then return content end
  end
end

selector_condition.makers = {
  T = selector_condition.always,
  F = selector_condition.never,
  U = selector_condition.unknown,
  ["&"] = selector_condition.all,
  ["|"] = selector_condition.any,
  ["!"] = selector_condition.negation,
  c = selector_condition.comparison,
  b = selector_condition.between,
  B = selector_condition.not_between,
  n = selector_condition.one_of,
  k = selector_condition.like,
  z = selector_condition.is_null,
  v = selector_condition.boolean,
}
