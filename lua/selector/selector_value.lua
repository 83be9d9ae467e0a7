--- require lazy "selector/selector_number"
--- used by selector/selector_condition, selector/selector_field, selector/selector_operand
-- Values of selectors: types, comparison and arithmetic. mqredis/selector/values.py does the same in Python
-- (tests/selector/test_differential.py compares).
--
-- A value is two values of Lua: a kind, and the content. Kinds:
--
--   nil  NULL                            b  true or false
--   s    text, escaped as in records     i  integer below 2^53, a number
--   x    bytes, as hex digits            I  larger integer, decimal text (selector/selector_number)
--   d    double                          e  no value: a text in a sum, 1/0, more than 64 bits
--
-- Functions that return a value return nothing for NULL, and "e" alone for no value.
local selector_value = {}

selector_value.special_doubles = { inf = 1 / 0, ["-inf"] = -1 / 0, nan = 0 / 0 }
selector_value.is_number = { i = true, I = true, d = true } -- by kind

-- Returns the value of an integer as selector_number has it, nil for one that does not fit into 64 bits.
function selector_value.integer(found)
  if not found then return "e" end
  return type(found) == "number" and "i" or "I", found
end

-- Returns the value of a property from its type letter (mqredis/models/properties.py) and text. A literal of a program has the
-- same form.
function selector_value.typed(letter, text)
  if letter == "s" or letter == "x" then return letter, text end
  if letter == "i" then return selector_value.integer(selector_number.parse(text)) end
  if letter == "d" then
    local double = selector_value.special_doubles[text] or tonumber(text)
    if double then return "d", double end
    return "e"
  end
  if letter == "t" then return "b", true end
  if letter == "f" then return "b", false end
  if letter == "e" then return "e" end
  return nil
end

-- Returns a text without escapes: "\4" and a letter stand for a byte that separates the fields of a head (core/record).
function selector_value.unescape(text)
  if not string.find(text, "\4", 1, true) then return text end
  return (string.gsub(text, "\4(.)", selector_value.escaped_byte))
end

-- Returns the byte that this letter stands for.
function selector_value.escaped_byte(letter)
  return string.char(string.byte(letter) - 64)
end

-- Comparisons that Lua does by itself, by operator as encode.py writes it: l for <=, g for >=, # for <>.
selector_value.tests = {
  ["="] = function(left, right) return left == right end,
  ["#"] = function(left, right) return left ~= right end,
  ["<"] = function(left, right) return left < right end,
  [">"] = function(left, right) return left > right end,
  l = function(left, right) return left <= right end,
  g = function(left, right) return left >= right end,
}

-- Compares two values. Returns true, false, or nil for unknown. selector/selector_condition compares numbers, and a property with a
-- text, by itself in the same way.
function selector_value.compare(op, left_kind, left, right_kind, right)
  if not left_kind or not right_kind then return nil end
  if selector_value.is_number[left_kind] and selector_value.is_number[right_kind] then
    local test = selector_value.tests[op]
    if left_kind == "d" or right_kind == "d" then return test(tonumber(left), tonumber(right)) end
    return test(selector_number.compare(left, right), 0)
  end
  if left_kind ~= right_kind or left_kind == "e" then return false end
  return (op == "=" and left == right) or (op == "#" and left ~= right)
end

-- Returns the value of a sum, difference, product or quotient.
function selector_value.calculate(op, left_kind, left, right_kind, right)
  if not left_kind or not right_kind then return nil end
  if not selector_value.is_number[left_kind] or not selector_value.is_number[right_kind] then return "e" end
  if left_kind == "d" or right_kind == "d" then
    return "d", selector_value.calculate_doubles(op, tonumber(left), tonumber(right))
  end
  return selector_value.integer(selector_value.calculate_integers(op, left, right))
end

function selector_value.calculate_doubles(op, left, right)
  if op == "+" then return left + right end
  if op == "-" then return left - right end
  if op == "*" then return left * right end
  return left / right
end

function selector_value.calculate_integers(op, left, right)
  if op == "+" then return selector_number.add(left, right) end
  if op == "-" then return selector_number.subtract(left, right) end
  if op == "*" then return selector_number.multiply(left, right) end
  return selector_number.divide(left, right)
end

-- Returns the value with this sign in front of it.
function selector_value.sign(op, kind, content)
  if not kind then return nil end
  if not selector_value.is_number[kind] then return "e" end
  if op == "+" then return kind, content end
  if kind == "d" then return "d", -content end
  return selector_value.integer(selector_number.negate(content))
end
