--- require "selector/selector_field"
--- require "selector/selector_number"
--- require "selector/selector_value"
--- used by selector/selector
-- Reads a selector's program from left to right, and makes its operands; selector/selector makes the conditions.
--
-- A program consists of letters, counts "<number>:" and texts "<length>:<text>" (mqredis/selector/encode.py). In front of
-- an operand stands one of these letters:
--
--   p      property: its name           h      header field: letter of the view, key, more (selector/selector_field)
--   C      sum or product: number of operators, operand, then operator and operand in turn
--   - +    sign: operand                ?      condition as an operand
--   t f e  true, false, no value        s x i d   literal of this kind (selector/selector_value): its text
local selector_program = {}

-- Returns a reader of a program. Its functions letter, count, chunk and operand read on; `operands` counts the operands
-- read. The caller adds reader.condition(plain), which reads a condition inside an operand.
function selector_program.new(text)
  local number = selector_number.new()
  local value = selector_value.new(number)
  local fields = selector_field.new(value, number)
  local find, sub = string.find, string.sub
  local reader, at, operand = { value = value, operands = 0 }, 1, nil

  -- Reads a letter.
  function reader.letter()
    at = at + 1
    return sub(text, at - 1, at - 1)
  end

  -- Reads a count, as a number.
  function reader.count()
    local colon = find(text, ":", at, true)
    local found = tonumber(sub(text, at, colon - 1))
    at = colon + 1
    return found
  end

  -- Reads a text.
  function reader.chunk()
    local size = reader.count()
    at = at + size
    return sub(text, at - size, at - 1)
  end
  local letter, count, chunk = reader.letter, reader.count, reader.chunk

  -- Makers of operands. Each returns the operand and, for literals and properties, what is known before a message is read: kind
  -- and value of a literal, the name of a property.
  local function literal(kind)
    local known_kind, known
    if kind == "t" or kind == "f" or kind == "e" then
      known_kind, known = value.typed(kind)
    else
      known_kind, known = value.typed(kind, chunk())
    end
    return function() return known_kind, known end, { kind = known_kind, value = known }
  end

  local function header()
    local view, key = letter(), chunk()
    if view == "E" or view == "B" then
      local first = literal(letter())
      return fields.header(view, key, first, (literal(letter())))
    end
    if view == "T" or view == "I" then return fields.header(view, key, chunk()) end
    return fields.header(view, key)
  end

  local function chain()
    local length = count()
    local first = operand()
    local ops, rest = {}, {}
    for n = 1, length do
      ops[n] = letter()
      rest[n] = operand()
    end
    return function(rec, stop, id)
      local kind, total = first(rec, stop, id)
      for n = 1, length do kind, total = value.calculate(ops[n], kind, total, rest[n](rec, stop, id)) end
      return kind, total
    end
  end

  -- Reads an operand.
  function operand()
    local op = letter()
    reader.operands = reader.operands + 1
    if op == "p" then
      local name = chunk()
      return fields.property(name), { name = name }
    end
    if op == "h" then return header() end
    if op == "C" then return chain() end
    if op == "-" or op == "+" then
      local item = operand()
      return function(rec, stop, id) return value.sign(op, item(rec, stop, id)) end
    end
    if op == "?" then
      local item = reader.condition(false)
      return function(rec, stop, id)
        local found = item(rec, stop, id)
        if found ~= nil then return "b", found end
      end
    end
    return literal(op)
  end

  reader.operand = operand
  return reader
end
