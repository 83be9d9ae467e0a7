--- used by selector/selector_field, selector/selector_value
-- Exact 64-bit integers for selectors, since Lua's doubles are exact only up to 2^53. An integer below that is a number, a
-- larger one its decimal text, without a plus sign or zeros in front. A result outside 64 bits is nil, and so is a division by
-- zero. mqredis/selector/values.py does the same in Python. Tests: tests/selector/test_numbers.py.
--
-- To calculate, a large integer is a sign, `minus`, and a magnitude: a list of limbs, numbers of seven decimal digits, the least
-- significant one first.
--
-- limit: 2^53. base: of the limbs; the product of two of them is below the limit.
local selector_number = { limit = 9007199254740992, base = 10000000 }

-- Returns the integer of a decimal text.
function selector_number.parse(text)
  local number = tonumber(text)
  if number < selector_number.limit and number > -selector_number.limit then return number end
  local minus = string.sub(text, 1, 1) == "-"
  local digits = minus and string.sub(text, 2) or text
  local most = minus and "9223372036854775808" or "9223372036854775807"
  if #digits > 19 or (#digits == 19 and digits > most) then return nil end
  return text
end

-- Returns the integer of 16 hexadecimal digits, a lookup id.
function selector_number.hex(text)
  local high, low = tonumber(string.sub(text, 1, 8), 16), tonumber(string.sub(text, 9), 16)
  return selector_number.add(selector_number.multiply(high, 4294967296), low)
end

-- Magnitudes ------------------------------------------------------------------------------------------------------------

-- Returns whether an integer is negative, and its magnitude.
function selector_number.split(integer)
  local text = type(integer) == "number" and string.format("%.0f", integer) or integer
  local minus = string.sub(text, 1, 1) == "-"
  if minus then text = string.sub(text, 2) end
  local limbs = {}
  for last = #text, 1, -7 do limbs[#limbs + 1] = tonumber(string.sub(text, math.max(1, last - 6), last)) end
  return minus, limbs
end

-- Returns the integer of a sign and a magnitude.
function selector_number.join(minus, limbs)
  local digits = {}
  for n = #limbs, 1, -1 do digits[#digits + 1] = string.format("%07.0f", limbs[n]) end
  return selector_number.parse_digits(minus, table.concat(digits))
end

-- Returns the integer of a sign and decimal digits, with zeros in front or not.
function selector_number.parse_digits(minus, digits)
  digits = string.gsub(digits, "^0+", "")
  if digits == "" then return 0 end
  return selector_number.parse(minus and "-" .. digits or digits)
end

-- Compares magnitudes: returns -1, 0 or 1.
function selector_number.compare_limbs(left, right)
  for n = math.max(#left, #right), 1, -1 do
    local left_limb, right_limb = left[n] or 0, right[n] or 0
    if left_limb < right_limb then return -1 end
    if left_limb > right_limb then return 1 end
  end
  return 0
end

-- Returns left + sign * right of magnitudes; left is not below right if sign is -1. A sum that is no small integer has at most 20
-- digits, which fit into three limbs, and one of the two has as many.
function selector_number.add_limbs(left, right, sign)
  local limbs, carry, base = {}, 0, selector_number.base
  for n = 1, math.max(#left, #right) do
    local sum = (left[n] or 0) + sign * (right[n] or 0) + carry
    carry = math.floor(sum / base)
    limbs[n] = sum - carry * base
  end
  return limbs
end

-- Returns the sum of two integers that are split.
function selector_number.add_split(left_minus, left, right_minus, right)
  if left_minus == right_minus then
    return selector_number.join(left_minus, selector_number.add_limbs(left, right, 1))
  end
  if selector_number.compare_limbs(left, right) < 0 then
    return selector_number.join(right_minus, selector_number.add_limbs(right, left, -1))
  end
  return selector_number.join(left_minus, selector_number.add_limbs(left, right, -1))
end

-- Arithmetic ------------------------------------------------------------------------------------------------------------

-- Are both integers numbers of Lua?
function selector_number.are_small(left, right)
  return type(left) == "number" and type(right) == "number"
end

-- Compares integers: returns -1, 0 or 1.
function selector_number.compare(left, right)
  if selector_number.are_small(left, right) then return left < right and -1 or left > right and 1 or 0 end
  local left_minus, left_limbs = selector_number.split(left)
  local right_minus, right_limbs = selector_number.split(right)
  if left_minus ~= right_minus then return left_minus and -1 or 1 end
  if left_minus then return selector_number.compare_limbs(right_limbs, left_limbs) end
  return selector_number.compare_limbs(left_limbs, right_limbs)
end

function selector_number.negate(integer)
  if type(integer) == "number" then return 0 - integer end
  return selector_number.parse(string.sub(integer, 1, 1) == "-" and string.sub(integer, 2) or "-" .. integer)
end

function selector_number.add(left, right)
  if selector_number.are_small(left, right) then
    local sum = left + right
    if sum < selector_number.limit and sum > -selector_number.limit then return sum end
  end
  local left_minus, left_limbs = selector_number.split(left)
  return selector_number.add_split(left_minus, left_limbs, selector_number.split(right))
end

-- Does not negate and add large integers, since -(-2^63) does not fit into 64 bits where left - (-2^63) may.
function selector_number.subtract(left, right)
  if selector_number.are_small(left, right) then return selector_number.add(left, 0 - right) end
  local left_minus, left_limbs = selector_number.split(left)
  local right_minus, right_limbs = selector_number.split(right)
  return selector_number.add_split(left_minus, left_limbs, not right_minus, right_limbs)
end

function selector_number.multiply(left, right)
  if selector_number.are_small(left, right) then
    local product = left * right
    -- Plus zero: 0 * -5 is -0 in doubles, and integers have no -0.
    if product < selector_number.limit and product > -selector_number.limit then return product + 0 end
  end
  local left_minus, left_limbs = selector_number.split(left)
  local right_minus, right_limbs = selector_number.split(right)
  local limbs, base = {}, selector_number.base
  for n = 1, #left_limbs + #right_limbs do limbs[n] = 0 end
  for i = 1, #left_limbs do
    for k = 1, #right_limbs do
      local place = i + k - 1
      local product = limbs[place] + left_limbs[i] * right_limbs[k]
      local carry = math.floor(product / base)
      limbs[place] = product - carry * base
      limbs[place + 1] = limbs[place + 1] + carry
    end
  end
  return selector_number.join(left_minus ~= right_minus, limbs)
end

-- Rounds towards zero, as Java does.
function selector_number.divide(left, right)
  if right == 0 then return nil end
  if selector_number.are_small(left, right) then return (left - math.fmod(left, right)) / right + 0 end
  local left_minus, left_limbs = selector_number.split(left)
  local right_minus, divisor = selector_number.split(right)
  -- Long division: each digit of the dividend is appended to the rest of those before, which is below the divisor, so that three
  -- limbs hold it.
  local rest, digits = { 0, 0, 0 }, {}
  for n = #left_limbs, 1, -1 do
    for digit in string.gmatch(string.format("%07.0f", left_limbs[n]), "%d") do
      selector_number.append_digit(rest, tonumber(digit))
      local count = 0
      while selector_number.compare_limbs(rest, divisor) >= 0 do
        rest, count = selector_number.add_limbs(rest, divisor, -1), count + 1
      end
      digits[#digits + 1] = count
    end
  end
  return selector_number.parse_digits(left_minus ~= right_minus, table.concat(digits))
end

-- Multiplies a magnitude by ten and adds a digit, in place. The result has no more limbs.
function selector_number.append_digit(limbs, digit)
  local carry, base = digit, selector_number.base
  for n = 1, #limbs do
    local value = limbs[n] * 10 + carry
    carry = math.floor(value / base)
    limbs[n] = value - carry * base
  end
end
