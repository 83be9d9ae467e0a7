--- require lazy "selector/selector_field"
--- require lazy "selector/selector_program"
--- require lazy "selector/selector_value"
--- used by selector/selector_condition
-- The operands of a selector: functions that return a value, a kind and a content (selector/selector_value), of a message
-- (selector/selector describes them, and says what to change together).
--
-- In front of an operand stands one of these letters in the program (_operand in mqredis/selector/encode.py):
--
--   p        property: its name
--   h        header field: letter of its view, key, more (selector/selector_field)
--   C        sum or product: number of operators, operand, then operator and operand in turn
--   - +      sign: operand
--   ?        condition as an operand
--   t f e    the literals true, false, and no value
--   s x i d  literal of this kind: its text
--
-- `reader`: of the program (selector/selector_program).
local selector_operand = {}

-- What is known of an operand before a message is read, if that is nothing.
selector_operand.nothing_known = {}

-- Reads an operand. Returns it; and what is known of it before a message is read, as a table: `property`, the name of a property;
-- `kind` and `content` of a literal.
function selector_operand.read(reader)
  reader.operands = reader.operands + 1
  local letter = selector_program.letter(reader)
  local make = selector_operand.makers[letter] or selector_operand.literal
  local operand, known = make(reader, letter)
  return operand, known or selector_operand.nothing_known
end

-- Makers of operands: they read what follows the letter in the program, and return the operand, and what is known of it.

function selector_operand.literal(reader, letter)
  local text = ""
  if string.find(letter, "[sxid]") then text = selector_program.chunk(reader) end
  local kind, content = selector_value.typed(letter, text)
  return function() return kind, content end, { kind = kind, content = content }
end

function selector_operand.property(reader)
  local name = selector_program.chunk(reader)
  return selector_field.property(name), { property = name }
end

-- Behind the key stand the default of a text or an integer, and two literals of the views E and B (selector_field.views).
function selector_operand.header_field(reader)
  local view, key = selector_program.letter(reader), "\3" .. selector_program.chunk(reader)
  local make = selector_field.views[view]
  if view == "T" or view == "I" then return make(key, selector_program.chunk(reader)) end
  if view == "E" or view == "B" then
    local first = selector_operand.literal(reader, selector_program.letter(reader))
    local second = selector_operand.literal(reader, selector_program.letter(reader))
    return make(key, first, second)
  end
  return make(key)
end

function selector_operand.chain(reader)
  local length = selector_program.count(reader)
  local first = selector_operand.read(reader)
  local ops, rest = {}, {}
  for n = 1, length do
    ops[n] = selector_program.letter(reader)
    rest[n] = selector_operand.read(reader)
  end
  local calculate, compiled = selector_value.calculate, reader.compiled
  return function(rec, head_end, id)
    local kind, total = first(rec, head_end, id)
    for n = 1, length do
      -- A large integer is a text, and its division takes longer than selector.test estimates.
      if ops[n] == "/" and type(total) == "string" then compiled.time_left = compiled.time_left - 150 end
      kind, total = calculate(ops[n], kind, total, rest[n](rec, head_end, id))
    end
    return kind, total
  end
end

function selector_operand.sign(reader, op)
  local item = selector_operand.read(reader)
  local sign = selector_value.sign
  return function(rec, head_end, id) return sign(op, item(rec, head_end, id)) end
end

function selector_operand.condition(reader)
  local item = reader.read_condition(reader, false)
  return function(rec, head_end, id)
    local found = item(rec, head_end, id)
    if found ~= nil then return "b", found end
  end
end

selector_operand.makers = {
  p = selector_operand.property,
  h = selector_operand.header_field,
  C = selector_operand.chain,
  ["-"] = selector_operand.sign,
  ["+"] = selector_operand.sign,
  ["?"] = selector_operand.condition,
}
