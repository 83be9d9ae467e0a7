--- require "core/context"
--- require "core/record"
--- used by selector/selector_program
-- The operands of a selector that read a message: its properties and header fields. Each function here makes an operand
-- (selector/selector), which reads the record itself: no table of its fields is made.
--
-- A header field is seen through a view, which mqredis/selector/names.py chooses by a letter in the program; the table `views`
-- in selector_field.new says which.
local selector_field = {}

-- Returns the table of the functions that make operands. `value`: of selector_value.new; `number`: of selector_number.new.
function selector_field.new(value, number)
  local fields, typed, integer = {}, value.typed, value.integer
  local find, sub = string.find, string.sub
  local FIELD_END = "[%z\1\3]"

  -- Returns the operand of a property. Bytes 1 to 3 separate the fields of a head and text never holds them, so the first
  -- hit is the property.
  function fields.property(name)
    local key = "\1" .. name .. "\2"
    return function(rec, stop)
      local _, last = find(rec, key, 15, true)
      if not last or last > stop then return nil end
      return typed(sub(rec, last + 1, last + 1), sub(rec, last + 2, find(rec, FIELD_END, last + 2) - 1))
    end
  end

  -- Returns a system field of the head as text; nil if it is not there.
  local function field(rec, stop, key)
    local from = find(rec, key, 15, true)
    if not from or from > stop then return nil end
    return sub(rec, from + 2, find(rec, FIELD_END, from + 2) - 1)
  end

  -- Makers of operands. Their arguments are the field's key and what followed it in the program.

  -- Message, correlation or group id. A message without an id from its sender has one made from its lookup id (features/copy).
  local function identifier(key)
    return function(rec, stop, id)
      local text = field(rec, stop, key)
      if text then return sub(text, 1, 1), sub(text, 2) end
      if key == record.fields.message_id then return "s", "mq-" .. id end
    end
  end

  -- An identifier as JMS shows it, "ID:" and hex digits if it is no text.
  local function jms_identifier(key)
    local natural = identifier(key)
    return function(rec, stop, id)
      local kind, text = natural(rec, stop, id)
      if kind == "x" then return "s", "ID:" .. text end
      return kind, text
    end
  end

  local function text_field(key, default)
    if default == "" then default = nil end
    return function(rec, stop)
      local text = field(rec, stop, key)
      if not text or text == "" then text = default end
      if text then return "s", text end
    end
  end

  local function integer_field(key, default)
    return function(rec, stop)
      local text = field(rec, stop, key) or default
      if text ~= "" then return integer(number.parse(text)) end
    end
  end

  -- An integer that only members of a group have.
  local function group_field(key)
    return function(rec, stop)
      if not field(rec, stop, record.fields.group_id) then return nil end
      return integer(number.parse(field(rec, stop, key) or "1"))
    end
  end

  -- The time of arrival as users are shown it, in ms.
  local function arrived()
    return function(rec) return "i", context.shown(tonumber(sub(rec, 1, 13))) end
  end

  -- The time of sending as users are shown it, in ms. The field holds how long before its arrival that was.
  local function sent(key)
    return function(rec, stop)
      return integer(number.subtract(context.shown(tonumber(sub(rec, 1, 13))), number.parse(field(rec, stop, key) or "0")))
    end
  end

  -- A lookup id as an integer: that of the message, or that in a field.
  local function lookup_id(key)
    return function(rec, stop, id)
      if key ~= "\3" then id = field(rec, stop, key) end
      if id then return integer(number.hex(id)) end
    end
  end

  -- Is a bit with a value from `least` on and below `modulus` set in an integer? Both are literals.
  local function bit_field(key, modulus, least)
    local _, most = modulus()
    local _, enough = least()
    return function(rec, stop)
      return "b", tonumber(field(rec, stop, key) or "0") % most >= enough
    end
  end

  -- The kind of message: 4 report, 1 request, 8 datagram (MQMT).
  local function message_type(key)
    return function(rec, stop)
      if (field(rec, stop, key) or "0") ~= "0" then return "i", 4 end
      return "i", field(rec, stop, record.fields.response_queue) and 1 or 8
    end
  end

  -- One of two literals, by the delivery mode.
  local function delivery_mode(key, express, recoverable)
    return function(rec, stop, id)
      return (field(rec, stop, key) == "0" and express or recoverable)(rec, stop, id)
    end
  end

  local views = { N = identifier, J = jms_identifier, T = text_field, I = integer_field, G = group_field, A = arrived,
    S = sent, L = lookup_id, B = bit_field, Y = message_type, E = delivery_mode }

  -- Returns the operand of a header field, seen through the view with this letter.
  function fields.header(letter, key, ...)
    return views[letter]("\3" .. key, ...)
  end

  return fields
end
