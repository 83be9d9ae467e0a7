--- used by selector/selector, selector/selector_condition, selector/selector_operand
-- Reads a selector's program, which mqredis/selector/encode.py writes, from left to right (selector/selector says what else belongs
-- together). It consists of letters, counts "<number>:" and texts "<length>:<text>":
--
--   program    count: the budget of LIKE (selector/selector_like); then one condition
--   condition  a letter, and what selector/selector_condition says of it
--   operand    a letter, and what selector/selector_operand says of it
--
--   example: "16384:c=p6:regions2:EU" is region = 'EU': c a comparison, = its operator, p the property "region", s the text "EU"
local selector_program = {}

-- Returns a reader of a program, a table with these fields:
--
--   text, at         the program, and the place that is read next
--   like_budget      the budget of LIKE
--   operands         number of operands that were read
--   compiled         the table that selector.compile makes
--   read_condition   selector_condition.read, for conditions inside operands
function selector_program.open(text, compiled, read_condition)
  local reader = { text = text, at = 1, like_budget = 0, operands = 0, compiled = compiled,
    read_condition = read_condition }
  reader.like_budget = selector_program.count(reader)
  return reader
end

-- Reads a letter.
function selector_program.letter(reader)
  local at = reader.at
  reader.at = at + 1
  return string.sub(reader.text, at, at)
end

-- Reads a count, as a number.
function selector_program.count(reader)
  local colon = string.find(reader.text, ":", reader.at, true)
  local count = tonumber(string.sub(reader.text, reader.at, colon - 1))
  reader.at = colon + 1
  return count
end

-- Reads a text.
function selector_program.chunk(reader)
  local size = selector_program.count(reader)
  local from = reader.at
  reader.at = from + size
  return string.sub(reader.text, from, from + size - 1)
end
