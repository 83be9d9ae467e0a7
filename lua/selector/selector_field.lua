--- require "core/record"
--- used by selector/selector_program
-- The operands of a selector that read a message: its properties and header fields. Used by selector/selector_program.
--
-- Each function here makes an operand: a function of (record, stop, lid) that returns a kind and a value
-- (selector/selector_value). `stop` is the place of the NUL in front of the record's body. Header fields are seen through
-- one of these views (mqredis/selector/names.py chooses):
--
--   N  identifier            J  identifier as JMS shows it ("ID:" and hex)     T  text, with a default
--   I  integer               G  integer that only members of a group have      A  time of arrival, ms
--   S  time of sending, ms   L  a lookup id as an integer                      B  is a bit of an integer set
--   Y  kind of message: 4 report, 1 request, 8 datagram (MQMT)                 E  one of two literals, by delivery mode
local selector_field = {}

function selector_field.new(value, number)
  local fields, typed, integer = {}, value.typed, value.integer
  local find, sub = string.find, string.sub
  local FIELD_END = "[%z\1\3]"

  -- A property. Bytes 1 to 3 separate the fields of a head and text never holds them, so the first hit is the property.
  function fields.property(name)
    local key = "\1" .. name .. "\2"
    return function(rec, stop)
      local _, last = find(rec, key, 15, true)
      if not last or last > stop then return nil end
      return typed(sub(rec, last + 1, last + 1), sub(rec, last + 2, find(rec, FIELD_END, last + 2) - 1))
    end
  end

  -- A system field of the head as text, or nothing.
  local function field(rec, stop, key)
    local from = find(rec, key, 15, true)
    if not from or from > stop then return nil end
    return sub(rec, from + 2, find(rec, FIELD_END, from + 2) - 1)
  end

  -- Makers of operands by view. Their arguments are the field's key and what followed it in the program.
  local view = {}

  -- A message without an identifier from its sender has one made from its lookup id (codec.generated_id).
  function view.N(key)
    return function(rec, stop, lid)
      local text = field(rec, stop, key)
      if text then return sub(text, 1, 1), sub(text, 2) end
      if key == record.fields.message_id then return "s", "mq-" .. lid end
    end
  end

  function view.J(key)
    local natural = view.N(key)
    return function(rec, stop, lid)
      local kind, text = natural(rec, stop, lid)
      if kind == "x" then return "s", "ID:" .. text end
      return kind, text
    end
  end

  function view.T(key, default)
    if default == "" then default = nil end
    return function(rec, stop)
      local text = field(rec, stop, key)
      if not text or text == "" then text = default end
      if text then return "s", text end
    end
  end

  function view.I(key, default)
    return function(rec, stop)
      local text = field(rec, stop, key) or default
      if text ~= "" then return integer(number.parse(text)) end
    end
  end

  function view.G(key)
    return function(rec, stop)
      if not field(rec, stop, record.fields.group_id) then return nil end
      return integer(number.parse(field(rec, stop, key) or "1"))
    end
  end

  function view.A()
    return function(rec) return "i", tonumber(sub(rec, 1, 13)) end
  end

  function view.S(key)
    return function(rec, stop)
      return integer(number.subtract(tonumber(sub(rec, 1, 13)), number.parse(field(rec, stop, key) or "0")))
    end
  end

  function view.L(key)
    return function(rec, stop, lid)
      if key ~= "\3" then lid = field(rec, stop, key) end
      if lid then return integer(number.hex(lid)) end
    end
  end

  function view.B(key, modulus, least)
    local _, most = modulus()
    local _, enough = least()
    return function(rec, stop)
      return "b", tonumber(field(rec, stop, key) or "0") % most >= enough
    end
  end

  function view.Y(key)
    return function(rec, stop)
      if (field(rec, stop, key) or "0") ~= "0" then return "i", 4 end
      return "i", field(rec, stop, record.fields.response_queue) and 1 or 8
    end
  end

  -- `express` and `recoverable` are literals.
  function view.E(key, express, recoverable)
    return function(rec, stop, lid)
      return (field(rec, stop, key) == "0" and express or recoverable)(rec, stop, lid)
    end
  end

  function fields.header(letter, key, ...)
    return view[letter]("\3" .. key, ...)
  end

  return fields
end
