--- require "selector/selector_like"
--- require "selector/selector_program"
--- used by features/subscription, matching/filter
-- Selectors on the server: IBM MQ's message selectors (docs/selectors.md), applied to the records of messages.
--
-- The client parses a selector, and mqredis/selector/encode.py writes the tree as a program, which selector.compile turns into
-- closures, never into Lua source. A condition is a function of (record, stop, id), where `stop` is the place of the NUL in
-- front of the body; it returns true, false, or nil for unknown. An operand is a function of the same arguments that returns a
-- kind and a value (selector/selector_value).
--
-- In a program a letter begins each condition; the table `make` in selector.compile says what they stand for. Letters of
-- operands are those of selector/selector_program, letters of header fields those of selector/selector_field.
--
-- allowed: microseconds that one script may spend on a selector. What it spends is estimated, rather too high, from the
-- numbers of operands and of bytes, with the time to read the record (program.fixed, program.by_size).
local selector = { allowed = 4000 }

-- Compiles a program. Returns it as a table for selector.test. Its field `time_left` is how many microseconds the script may
-- still spend on it: a search ends its call when nothing is left (filter.out_of_time).
function selector.compile(text)
  local reader, program = selector_program.new(text), { time_left = selector.allowed }
  local letter, count, chunk, operand = reader.letter, reader.count, reader.chunk, reader.operand
  local find, byte, value, compare = string.find, string.byte, reader.value, reader.value.compare
  local budget = count() -- of the LIKE conditions (selector/selector_like)

  -- Makers of conditions. Each reads what follows the letter in the program, and returns the condition. `plain`: it matters
  -- only whether the condition is true, not whether it is false or unknown. That holds from the root down through AND and OR,
  -- where faster closures will do.
  local condition

  local function all(plain)
    local length, items = count(), {}
    for n = 1, length do items[n] = condition(plain) end
    if plain and length == 2 then
      local a, b = items[1], items[2]
      return function(rec, stop, id) return a(rec, stop, id) and b(rec, stop, id) end
    end
    return function(rec, stop, id)
      local result = true
      for n = 1, length do
        local found = items[n](rec, stop, id)
        if found == false or (plain and not found) then return false end
        if found == nil then result = nil end
      end
      return result
    end
  end

  local function any(plain)
    local length, items = count(), {}
    for n = 1, length do items[n] = condition(plain) end
    return function(rec, stop, id)
      local result = false
      for n = 1, length do
        local found = items[n](rec, stop, id)
        if found then return true end
        if found == nil then result = nil end
      end
      return result
    end
  end

  local function negation()
    local item = condition(false)
    return function(rec, stop, id)
      local found = item(rec, stop, id)
      if found == nil then return nil end
      return not found
    end
  end

  -- property = 'text', the most frequent condition: one search finds name and value together.
  local function is_text(name, wanted)
    local key = "\1" .. name .. "\2s" .. wanted
    return function(rec, stop)
      local _, last = find(rec, key, 15, true)
      return last ~= nil and last < stop and byte(rec, last + 1) < 4
    end
  end

  local function comparison(plain)
    local op = letter()
    local left, about_left = operand()
    local right, about_right = operand()
    if plain and op == "=" and about_left and about_left.name and about_right and about_right.kind == "s" then
      return is_text(about_left.name, about_right.value)
    end
    if about_right and (about_right.kind == "i" or about_right.kind == "d") then
      local test, known_kind, known = value.test[op], about_right.kind, about_right.value
      return function(rec, stop, id)
        local kind, found = left(rec, stop, id)
        if kind == "i" or kind == "d" then return test(found, known) end
        return compare(op, kind, found, known_kind, known)
      end
    end
    return function(rec, stop, id)
      local kind, found = left(rec, stop, id)
      return compare(op, kind, found, right(rec, stop, id))
    end
  end

  -- `low_op`, `high_op`: how the value is compared with the bounds; `negated`: the result as soon as one comparison has it.
  local function range(low_op, high_op, negated)
    local item = operand()
    local low = operand()
    local high = operand()
    return function(rec, stop, id)
      local kind, found = item(rec, stop, id)
      local a = compare(low_op, kind, found, low(rec, stop, id))
      if a == negated then return negated end
      local b = compare(high_op, kind, found, high(rec, stop, id))
      if b == negated then return negated end
      if a == nil or b == nil then return nil end
      return not negated
    end
  end

  local function between() return range("g", "l", false) end
  local function not_between() return range("<", ">", true) end

  local function one_of()
    local item, set = (operand()), {}
    for _ = 1, count() do set[chunk()] = true end
    return function(rec, stop, id)
      local kind, found = item(rec, stop, id)
      if kind ~= "s" then return nil end
      return set[found] or false
    end
  end

  local function like()
    local item, segments = (operand()), {}
    for n = 1, count() do segments[n] = chunk() end
    local matches = selector_like.new(segments, budget)
    -- Bytes that separate the fields of a head are escaped in a text.
    local function original(_, escaped) return string.char(byte(escaped) - 64) end
    return function(rec, stop, id)
      local kind, found = item(rec, stop, id)
      if kind ~= "s" then return nil end
      program.time_left = program.time_left - #found / 5
      if find(found, "\4", 1, true) then found = string.gsub(found, "(\4)(.)", original) end
      return matches(found)
    end
  end

  local function is_null()
    local item = operand()
    return function(rec, stop, id) return item(rec, stop, id) == nil end
  end

  local function boolean_operand()
    local item = operand()
    return function(rec, stop, id)
      local kind, found = item(rec, stop, id)
      if kind == "b" then return found end
    end
  end

  local function always() return function() return true end end
  local function never() return function() return false end end
  local function unknown() return function() return nil end end

  local make = { ["&"] = all, ["|"] = any, ["!"] = negation, c = comparison, b = between, B = not_between, n = one_of,
    k = like, z = is_null, v = boolean_operand, T = always, F = never, U = unknown }

  function condition(plain)
    return make[letter()](plain)
  end

  reader.condition = condition
  program.run = condition(true)
  program.fixed, program.by_size = 1.5 + 0.6 * reader.operands, 1 / 600 + reader.operands / 10000
  return program
end

-- Is the message selected? Unknown does not select.
function selector.test(program, rec, id)
  program.time_left = program.time_left - program.fixed - #rec * program.by_size
  return program.run(rec, string.find(rec, "\0", 15, true), id) == true
end
