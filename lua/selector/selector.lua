--- require "selector/selector_like"
--- require "selector/selector_program"
--- used by features/subscription, matching/filter
-- Selectors on the server: IBM MQ's message selectors (docs/selectors.md), applied to the records of messages. Used by
-- matching/filter and features/subscription, so by every script that searches or publishes.
-- The client parses a selector; mqredis/selector/encode.py writes the tree as a program, which becomes closures here, never
-- Lua source. A condition is a function of (record, stop, lid), where `stop` is the place of the NUL in front of the body;
-- it returns true, false, or nil for unknown. In a program a letter begins each condition:
--
--   &  AND     |  OR     !  NOT     c  comparison     b  BETWEEN     B  NOT BETWEEN     n  IN     k  LIKE
--   z  IS NULL     v  an operand as a condition     T F U  true, false, unknown
local selector = {}

-- Compiles a program. Of the result, `left` is how many microseconds a script may still spend on it, by a rough rule that
-- includes reading the record and rather overestimates; a scan ends its call when nothing is left (filter.spent).
function selector.compile(text)
  local reader, program = selector_program.new(text), { left = 4000 }
  local letter, count, chunk, operand = reader.letter, reader.count, reader.chunk, reader.operand
  local find, byte, value, compare = string.find, string.byte, reader.value, reader.value.compare
  local budget, condition = count(), nil

  -- Makers of conditions, by letter. `plain`: it matters only whether the condition is true, not whether it is false or
  -- unknown. That holds from the root down through AND and OR, where faster closures will do.
  local make = {}

  make["&"] = function(plain)
    local length, items = count(), {}
    for n = 1, length do items[n] = condition(plain) end
    if plain and length == 2 then
      local a, b = items[1], items[2]
      return function(rec, stop, lid) return a(rec, stop, lid) and b(rec, stop, lid) end
    end
    return function(rec, stop, lid)
      local result = true
      for n = 1, length do
        local found = items[n](rec, stop, lid)
        if found == false or (plain and not found) then return false end
        if found == nil then result = nil end
      end
      return result
    end
  end

  make["|"] = function(plain)
    local length, items = count(), {}
    for n = 1, length do items[n] = condition(plain) end
    return function(rec, stop, lid)
      local result = false
      for n = 1, length do
        local found = items[n](rec, stop, lid)
        if found then return true end
        if found == nil then result = nil end
      end
      return result
    end
  end

  make["!"] = function()
    local item = condition(false)
    return function(rec, stop, lid)
      local found = item(rec, stop, lid)
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

  function make.c(plain)
    local op = letter()
    local left, about_left = operand()
    local right, about_right = operand()
    if plain and op == "=" and about_left and about_left.name and about_right and about_right.kind == "s" then
      return is_text(about_left.name, about_right.value)
    end
    if about_right and (about_right.kind == "i" or about_right.kind == "d") then
      local test, known_kind, known = value.test[op], about_right.kind, about_right.value
      return function(rec, stop, lid)
        local kind, found = left(rec, stop, lid)
        if kind == "i" or kind == "d" then return test(found, known) end
        return compare(op, kind, found, known_kind, known)
      end
    end
    return function(rec, stop, lid)
      local kind, found = left(rec, stop, lid)
      return compare(op, kind, found, right(rec, stop, lid))
    end
  end

  local function between(low_op, high_op, negated)
    local item = operand()
    local low = operand()
    local high = operand()
    return function(rec, stop, lid)
      local kind, found = item(rec, stop, lid)
      local a = compare(low_op, kind, found, low(rec, stop, lid))
      if a == negated then return negated end
      local b = compare(high_op, kind, found, high(rec, stop, lid))
      if b == negated then return negated end
      if a == nil or b == nil then return nil end
      return not negated
    end
  end

  function make.b() return between("g", "l", false) end
  function make.B() return between("<", ">", true) end

  function make.n()
    local item, set = (operand()), {}
    for _ = 1, count() do set[chunk()] = true end
    return function(rec, stop, lid)
      local kind, found = item(rec, stop, lid)
      if kind ~= "s" then return nil end
      return set[found] or false
    end
  end

  function make.k()
    local item, segments = (operand()), {}
    for n = 1, count() do segments[n] = chunk() end
    local like = selector_like.new(segments, budget)
    local function original(_, escaped) return string.char(byte(escaped) - 64) end
    return function(rec, stop, lid)
      local kind, found = item(rec, stop, lid)
      if kind ~= "s" then return nil end
      program.left = program.left - #found / 5
      if find(found, "\4", 1, true) then found = string.gsub(found, "(\4)(.)", original) end
      return like(found)
    end
  end

  function make.z()
    local item = operand()
    return function(rec, stop, lid) return item(rec, stop, lid) == nil end
  end

  function make.v()
    local item = operand()
    return function(rec, stop, lid)
      local kind, found = item(rec, stop, lid)
      if kind == "b" then return found end
    end
  end

  function make.T() return function() return true end end
  function make.F() return function() return false end end
  function make.U() return function() return nil end end

  function condition(plain)
    return make[letter()](plain)
  end

  reader.condition = condition
  program.run = condition(true)
  program.fixed, program.by_size = 1.5 + 0.6 * reader.operands, 1 / 600 + reader.operands / 10000
  return program
end

-- Is the message selected? Unknown does not select.
function selector.test(program, rec, lid)
  program.left = program.left - program.fixed - #rec * program.by_size
  return program.run(rec, string.find(rec, "\0", 15, true), lid) == true
end
