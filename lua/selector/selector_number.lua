--- used by selector/selector_program
-- Exact 64-bit integers for selectors, since Lua's doubles are exact only up to 2^53. An integer below that is a number, a
-- larger one its decimal text, without a plus sign or zeros in front. A result outside 64 bits is nil, and so is a division by
-- zero. mqredis/selector/values.py does the same in Python.
local selector_number = {}

-- Returns a table with the functions. They are made at the first selector, so that a call without one pays nothing for them.
function selector_number.new()
  local number, LIMIT, BASE = {}, 9007199254740992, 10000000
  local sub, format, fmod, floor = string.sub, string.format, math.fmod, math.floor

  -- Returns the integer of a decimal text.
  function number.parse(text)
    if #text <= 15 then return tonumber(text) end
    local minus = sub(text, 1, 1) == "-"
    local digits = minus and sub(text, 2) or text
    if #digits > 19 then return nil end
    local most = minus and "9223372036854775808" or "9223372036854775807"
    if #digits == 19 and digits > most then return nil end
    if #digits < 16 or (#digits == 16 and digits < "9007199254740992") then return tonumber(text) end
    return text
  end

  -- Returns whether an integer is negative, and its magnitude as limbs of seven digits, the least first.
  local function limbs(value)
    local text = type(value) == "number" and format("%.0f", value) or value
    local minus = sub(text, 1, 1) == "-"
    if minus then text = sub(text, 2) end
    local out = {}
    for last = #text, 1, -7 do out[#out + 1] = tonumber(sub(text, last > 6 and last - 6 or 1, last)) end
    return minus, out
  end

  -- Returns the integer of sign and limbs.
  local function whole(minus, parts)
    local text = {}
    for n = #parts, 1, -1 do text[#text + 1] = format("%07.0f", parts[n]) end
    text = string.gsub(table.concat(text), "^0+", "")
    if text == "" then return 0 end
    return number.parse(minus and "-" .. text or text)
  end

  -- Compares magnitudes: returns -1, 0 or 1.
  local function order(a, b)
    for n = #a > #b and #a or #b, 1, -1 do
      local x, y = a[n] or 0, b[n] or 0
      if x ~= y then return x < y and -1 or 1 end
    end
    return 0
  end

  -- Returns a + sign * b for magnitudes; a is not below b if sign is -1.
  local function sum(a, b, sign)
    local out, carry = {}, 0
    for n = 1, (#a > #b and #a or #b) + 1 do
      local value = (a[n] or 0) + sign * (b[n] or 0) + carry
      carry = floor(value / BASE)
      out[n] = value - carry * BASE
    end
    return out
  end

  -- Compares integers: returns -1, 0 or 1.
  function number.compare(a, b)
    if type(a) == "number" and type(b) == "number" then return a < b and -1 or a > b and 1 or 0 end
    local a_minus, x = limbs(a)
    local b_minus, y = limbs(b)
    if a_minus ~= b_minus then return a_minus and -1 or 1 end
    return a_minus and order(y, x) or order(x, y)
  end

  function number.negate(a)
    if type(a) == "number" then return 0 - a end
    return number.parse(sub(a, 1, 1) == "-" and sub(a, 2) or "-" .. a)
  end

  function number.add(a, b)
    if type(a) == "number" and type(b) == "number" then
      local value = a + b
      if value < LIMIT and value > -LIMIT then return value end
    end
    local a_minus, x = limbs(a)
    local b_minus, y = limbs(b)
    if a_minus == b_minus then return whole(a_minus, sum(x, y, 1)) end
    if order(x, y) < 0 then return whole(b_minus, sum(y, x, -1)) end
    return whole(a_minus, sum(x, y, -1))
  end

  -- Does not negate and add, since -(-2^63) does not fit into 64 bits where x - (-2^63) may.
  function number.subtract(a, b)
    local minus, y = limbs(b)
    if type(a) == "number" and type(b) == "number" then return number.add(a, 0 - b) end
    local a_minus, x = limbs(a)
    if a_minus ~= minus then return whole(a_minus, sum(x, y, 1)) end
    if order(x, y) < 0 then return whole(not a_minus, sum(y, x, -1)) end
    return whole(a_minus, sum(x, y, -1))
  end

  function number.multiply(a, b)
    if type(a) == "number" and type(b) == "number" then
      local value = a * b
      -- Plus zero: 0 * -5 is -0 in doubles, and integers have no -0.
      if value < LIMIT and value > -LIMIT then return value + 0 end
    end
    local a_minus, x = limbs(a)
    local b_minus, y = limbs(b)
    local out = {}
    for n = 1, #x + #y do out[n] = 0 end
    for i = 1, #x do
      for j = 1, #y do
        local value = out[i + j - 1] + x[i] * y[j]
        local carry = floor(value / BASE)
        out[i + j - 1] = value - carry * BASE
        out[i + j] = out[i + j] + carry
      end
    end
    return whole(a_minus ~= b_minus, out)
  end

  -- Rounds towards zero, as Java does.
  function number.divide(a, b)
    if b == 0 then return nil end
    if type(a) == "number" and type(b) == "number" then return (a - fmod(a, b)) / b + 0 end
    local a_minus, x = limbs(a)
    local b_minus, y = limbs(b)
    local rest, digits = {}, {}
    for n = #x, 1, -1 do
      for digit in string.gmatch(format("%07.0f", x[n]), "%d") do
        local carry, count = tonumber(digit), 0
        for i = 1, #rest do
          local value = rest[i] * 10 + carry
          carry = floor(value / BASE)
          rest[i] = value - carry * BASE
        end
        if carry > 0 then rest[#rest + 1] = carry end
        while order(rest, y) >= 0 do
          rest, count = sum(rest, y, -1), count + 1
        end
        digits[#digits + 1] = count
      end
    end
    local text = string.gsub(table.concat(digits), "^0+", "")
    if text == "" then return 0 end
    return number.parse(a_minus ~= b_minus and "-" .. text or text)
  end

  -- Returns the integer of 16 hexadecimal digits, a lookup id; nil if the text is no such.
  function number.hex(text)
    local high, low = tonumber(sub(text, 1, 8), 16), tonumber(sub(text, 9), 16)
    if not high or not low then return nil end
    return number.add(number.multiply(high, 4294967296), low)
  end

  return number
end
