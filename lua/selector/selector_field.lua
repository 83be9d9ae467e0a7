--- require "core/context"
--- require lazy "core/record"
--- require lazy "selector/selector_number"
--- require lazy "selector/selector_value"
--- used by selector/selector_operand
-- The operands of a selector that read a message: its properties and header fields. Each function here makes an operand
-- (selector/selector), which reads the record itself (core/record): no table of its fields is made.
--
-- A header field is seen through a view, which mqredis/selector/names.py chooses by a letter in the program; selector_field.views
-- says which. `key`: the mark and the key of the field, "\3" and a letter; "\3" alone for what is in no field. Tests:
-- tests/selector/test_names.py.
--
-- field_end: a pattern for the byte behind a field of a head.
local selector_field = { field_end = "[%z\1\3]" }

-- Returns what stands behind the text `start` in the head, up to the end of the field; nil if the head does not have it. Bytes 1 to
-- 3 separate the fields of a head and text never holds them, so the first hit is the field.
function selector_field.content(rec, head_end, start)
  local find = string.find
  local _, last = find(rec, start, record.head_at, true)
  if not last or last > head_end then return nil end
  return string.sub(rec, last + 1, find(rec, selector_field.field_end, last + 1) - 1)
end

-- Returns the operand of a property.
function selector_field.property(name)
  local content, sub, start, typed = selector_field.content, string.sub, "\1" .. name .. "\2", selector_value.typed
  return function(rec, head_end)
    local text = content(rec, head_end, start)
    if text then return typed(sub(text, 1, 1), sub(text, 2)) end
  end
end

-- Returns a system field of the head as text; nil if it is not there. What the message asked for of which this is a copy has "~"
-- before its key (core/record), and is read as well, since readers are shown it.
function selector_field.text(rec, head_end, key)
  return selector_field.content(rec, head_end, key)
    or selector_field.content(rec, head_end, "\3~" .. string.sub(key, 2))
end

-- Views -----------------------------------------------------------------------------------------------------------------
--
-- Makers of operands. Their arguments are the key of the field and what followed it in the program. A new view also needs a case
-- in HeaderField.read of mqredis/selector/names.py, and if something follows the key, in selector_operand.header_field and in
-- `_header` of mqredis/selector/encode.py.

-- Message, correlation or group id. A message without an id from its sender has one made from its lookup id
-- (record.made_message_id).
function selector_field.identifier(key)
  return function(rec, head_end, id)
    local text = selector_field.text(rec, head_end, key)
    if text then return string.sub(text, 1, 1), string.sub(text, 2) end
    if key == record.fields.message_id then return "s", "mq-" .. id end
  end
end

-- An identifier as JMS shows it, "ID:" and hex digits if it is no text.
function selector_field.jms_identifier(key)
  local identifier = selector_field.identifier(key)
  return function(rec, head_end, id)
    local kind, text = identifier(rec, head_end, id)
    if kind == "x" then return "s", "ID:" .. text end
    return kind, text
  end
end

-- `default`: "" for NULL. A field that is empty counts as missing.
function selector_field.text_field(key, default)
  return function(rec, head_end)
    local text = selector_field.text(rec, head_end, key)
    if not text or text == "" then text = default end
    if text ~= "" then return "s", text end
  end
end

-- `default`: "" for NULL.
function selector_field.integer_field(key, default)
  return function(rec, head_end)
    local text = selector_field.text(rec, head_end, key) or default
    if text ~= "" then return selector_value.integer(selector_number.parse(text)) end
  end
end

-- An integer that only members of a group have.
function selector_field.group_field(key)
  return function(rec, head_end)
    if not selector_field.text(rec, head_end, record.fields.group_id) then return nil end
    return selector_value.integer(selector_number.parse(selector_field.text(rec, head_end, key) or "1"))
  end
end

-- The time of arrival as users are shown it, in ms.
function selector_field.arrived()
  return function(rec) return "i", context.shown(record.arrived(rec)) end
end

-- The time of sending as users are shown it, in ms. The field holds how long before its arrival that was.
function selector_field.sent(key)
  return function(rec, head_end)
    local ms_before = selector_number.parse(selector_field.text(rec, head_end, key) or "0")
    return selector_value.integer(selector_number.subtract(context.shown(record.arrived(rec)), ms_before))
  end
end

-- A lookup id as an integer: that of the message, or that in a field. A message that is sent to a topic has none yet
-- (subscription.open).
function selector_field.lookup_id(key)
  return function(rec, head_end, id)
    if key ~= "\3" then id = selector_field.text(rec, head_end, key) end
    if id and id ~= "" then return selector_value.integer(selector_number.hex(id)) end
  end
end

-- Is a bit with a value from `least` on and below `modulus` set in an integer? Both are literals: operands that need no
-- message, and return kind and content.
function selector_field.bit_field(key, modulus, least)
  local _, most = modulus()
  local _, enough = least()
  return function(rec, head_end)
    return "b", tonumber(selector_field.text(rec, head_end, key) or "0") % most >= enough
  end
end

-- The kind of message: 4 report, 1 request, 8 datagram (MQMT).
function selector_field.message_type(key)
  return function(rec, head_end)
    if (selector_field.text(rec, head_end, key) or "0") ~= "0" then return "i", 4 end
    return "i", selector_field.text(rec, head_end, record.fields.response_queue) and 1 or 8
  end
end

-- One of two literals, by the delivery mode.
function selector_field.delivery_mode(key, express, recoverable)
  return function(rec, head_end, id)
    return (selector_field.text(rec, head_end, key) == "0" and express or recoverable)(rec, head_end, id)
  end
end

selector_field.views = {
  N = selector_field.identifier,
  J = selector_field.jms_identifier,
  T = selector_field.text_field,
  I = selector_field.integer_field,
  G = selector_field.group_field,
  A = selector_field.arrived,
  S = selector_field.sent,
  L = selector_field.lookup_id,
  B = selector_field.bit_field,
  Y = selector_field.message_type,
  E = selector_field.delivery_mode,
}
