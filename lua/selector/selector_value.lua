--- used by selector/selector_program
-- Values of selectors: types, comparison and arithmetic. selector_program makes the table of functions; selector and
-- selector_field use it. mqredis/selector/values.py does the same in Python.
--
-- A value is two values of Lua: a kind, and the content. Kinds:
--
--   nil  NULL                            b  true or false
--   s    text, escaped as in records     i  integer below 2^53, a number
--   x    bytes, as hex digits            I  larger integer, decimal text (selector/selector_number)
--   d    double                          e  no value: a text in a sum, 1/0, more than 64 bits
local selector_value = {}

-- Returns a table with the functions. `number`: of selector_number.new.
function selector_value.new(number)
  local value = {}
  local SPECIAL = { inf = 1 / 0, ["-inf"] = -1 / 0, nan = 0 / 0 }

  -- Returns kind and content of an integer as selector_number has it.
  function value.integer(found)
    if not found then return "e" end
    return type(found) == "number" and "i" or "I", found
  end

  local integer = value.integer

  -- Returns kind and content from the type letter of a property (core/record) and a text.
  function value.typed(letter, text)
    if letter == "s" or letter == "x" then return letter, text end
    if letter == "i" then return integer(number.parse(text)) end
    if letter == "d" then
      local double = SPECIAL[text] or tonumber(text)
      if double then return "d", double end
      return "e"
    end
    if letter == "t" then return "b", true end
    if letter == "f" then return "b", false end
    if letter == "e" then return "e" end
    return nil
  end

  -- By operator as encode.py writes it, l for <=, g for >=, # for <>: comparisons that Lua does by itself.
  value.test = {
    ["="] = function(a, b) return a == b end,
    ["#"] = function(a, b) return a ~= b end,
    ["<"] = function(a, b) return a < b end,
    [">"] = function(a, b) return a > b end,
    l = function(a, b) return a <= b end,
    g = function(a, b) return a >= b end,
  }
  local NUMERIC = { i = true, I = true, d = true }

  -- Compares two values. Returns true, false, or nil for unknown. selector/selector compares numbers, and a field with a text,
  -- by itself in the same way.
  function value.compare(op, a_kind, a, b_kind, b)
    if not a_kind or not b_kind then return nil end
    if NUMERIC[a_kind] and NUMERIC[b_kind] then
      if a_kind == "d" or b_kind == "d" then return value.test[op](tonumber(a), tonumber(b)) end
      return value.test[op](number.compare(a, b), 0)
    end
    if a_kind ~= b_kind or a_kind == "e" then return false end
    return (op == "=" and a == b) or (op == "#" and a ~= b)
  end

  local exact = { ["+"] = number.add, ["-"] = number.subtract, ["*"] = number.multiply, ["/"] = number.divide }
  local floating = {
    ["+"] = function(a, b) return a + b end,
    ["-"] = function(a, b) return a - b end,
    ["*"] = function(a, b) return a * b end,
    ["/"] = function(a, b) return a / b end,
  }

  -- Returns kind and content of a sum, difference, product or quotient.
  function value.calculate(op, a_kind, a, b_kind, b)
    if not a_kind or not b_kind then return nil end
    if not NUMERIC[a_kind] or not NUMERIC[b_kind] then return "e" end
    if a_kind == "d" or b_kind == "d" then return "d", floating[op](tonumber(a), tonumber(b)) end
    return integer(exact[op](a, b))
  end

  -- Returns kind and content of a value with this sign in front.
  function value.sign(op, kind, found)
    if not kind then return nil end
    if not NUMERIC[kind] then return "e" end
    if op == "+" then return kind, found end
    if kind == "d" then return "d", -found end
    return integer(number.negate(found))
  end

  return value
end
