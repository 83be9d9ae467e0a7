--- require "lib/selector_number"
-- Operands: where a value comes from, how values compare and how one reckons with them. values.py is the same in Python.
--
-- An operand is a function of (record, stop, lid): the record's text, where its body begins, and its lookup id. It
-- answers a kind and a value: nil for NULL, s text (escaped as in records), x bytes as hex, b boolean, i integer
-- below 2^53, I larger integer as text, d double, e no value (a string in a sum, 1/0, more than 64 bits).
local selector_value = {}

function selector_value.new()
  local value, number = {}, selector_number.new()
  local find, sub = string.find, string.sub
  local FIELD_END = "[%z\1\3]"
  local SPECIAL = { inf = 1 / 0, ["-inf"] = -1 / 0, nan = 0 / 0 }

  local function integer(found)
    if not found then return "e" end
    return type(found) == "number" and "i" or "I", found
  end

  local function double(found)
    if not found then return "e" end
    return "d", found
  end

  -- Type letter and text to kind and value; the letters are those of records.
  function value.typed(letter, text)
    if letter == "s" or letter == "x" then return letter, text end
    if letter == "i" then return integer(number.parse(text)) end
    if letter == "d" then return double(SPECIAL[text] or tonumber(text)) end
    if letter == "t" then return "b", true end
    if letter == "f" then return "b", false end
    if letter == "e" then return "e" end
    return nil
  end

  -- A user property. Only bytes 1 to 3 have a meaning in a head and text never holds them: the first hit is it.
  function value.property(name)
    local key, typed = "\1" .. name .. "\2", value.typed
    return function(record, stop)
      local _, last = find(record, key, 15, true)
      if not last or last > stop then return nil end
      return typed(sub(record, last + 1, last + 1), sub(record, last + 2, find(record, FIELD_END, last + 2) - 1))
    end
  end

  -- A system field as text, or nothing.
  local function field(record, stop, key)
    local from = find(record, key, 15, true)
    if not from or from > stop then return nil end
    return sub(record, from + 2, find(record, FIELD_END, from + 2) - 1)
  end

  -- Header fields by view, see names.py: from the key and what followed it in the program to an operand.
  local view = {}

  -- An identifier. A message whose sender gave it none is called after its lookup id (codec.generated_id).
  function view.N(key)
    return function(record, stop, lid)
      local text = field(record, stop, key)
      if text then return sub(text, 1, 1), sub(text, 2) end
      if key == "\3m" then return "s", "mq-" .. lid end
    end
  end

  function view.J(key)
    local natural = view.N(key)
    return function(record, stop, lid)
      local kind, text = natural(record, stop, lid)
      if kind == "x" then return "s", "ID:" .. text end
      return kind, text
    end
  end

  function view.T(key, default)
    if default == "" then default = nil end
    return function(record, stop)
      local text = field(record, stop, key)
      if not text or text == "" then text = default end
      if text then return "s", text end
    end
  end

  function view.I(key, default)
    return function(record, stop)
      local text = field(record, stop, key) or default
      if text ~= "" then return integer(number.parse(text)) end
    end
  end

  function view.G(key)
    return function(record, stop)
      if not field(record, stop, "\3g") then return nil end
      return integer(number.parse(field(record, stop, key) or "1"))
    end
  end

  function view.A()
    return function(record) return "i", tonumber(sub(record, 1, 13)) end
  end

  function view.S(key)
    return function(record, stop)
      return integer(number.subtract(tonumber(sub(record, 1, 13)), number.parse(field(record, stop, key) or "0")))
    end
  end

  function view.L(key)
    return function(record, stop, lid)
      if key ~= "\3" then lid = field(record, stop, key) end
      if lid then return integer(number.hex(lid)) end
    end
  end

  function view.B(key, modulus, least)
    local _, most = modulus()
    local _, enough = least()
    return function(record, stop)
      return "b", tonumber(field(record, stop, key) or "0") % most >= enough
    end
  end

  function view.Y(key)
    return function(record, stop)
      if (field(record, stop, key) or "0") ~= "0" then return "i", 4 end
      return "i", field(record, stop, "\3r") and 1 or 8
    end
  end

  -- One of two literals: of express messages, of recoverable ones.
  function view.E(key, express, recoverable)
    return function(record, stop, lid)
      return (field(record, stop, key) == "0" and express or recoverable)(record, stop, lid)
    end
  end

  function value.header(letter, key, ...)
    return view[letter]("\3" .. key, ...)
  end

  -- Comparisons that Lua can do by itself, by the letters of encode.py.
  value.test = {
    ["="] = function(a, b) return a == b end,
    ["#"] = function(a, b) return a ~= b end,
    ["<"] = function(a, b) return a < b end,
    [">"] = function(a, b) return a > b end,
    l = function(a, b) return a <= b end,
    g = function(a, b) return a >= b end,
  }
  local NUMERIC = { i = true, I = true, d = true }

  -- true, false, or nil for unknown.
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

  function value.reckon(op, a_kind, a, b_kind, b)
    if not a_kind or not b_kind then return nil end
    if not NUMERIC[a_kind] or not NUMERIC[b_kind] then return "e" end
    if a_kind == "d" or b_kind == "d" then return "d", floating[op](tonumber(a), tonumber(b)) end
    return integer(exact[op](a, b))
  end

  function value.sign(op, kind, found)
    if not kind then return nil end
    if not NUMERIC[kind] then return "e" end
    if op == "+" then return kind, found end
    if kind == "d" then return "d", -found end
    return integer(number.negate(found))
  end

  return value
end
