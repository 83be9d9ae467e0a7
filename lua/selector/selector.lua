--- require lazy "selector/selector_condition"
--- require lazy "selector/selector_program"
--- used by features/subscription, matching/filter
-- Selectors on the server: IBM MQ's message selectors (docs/selectors.md), applied to the records of messages.
--
-- The client parses a selector, and mqredis/selector/encode.py writes the tree as a program (selector/selector_program), which
-- selector.compile turns into closures, never into Lua source:
--
--   condition  function of (rec, head_end, id) that returns true, false, or nil for unknown (selector/selector_condition)
--   operand    function of the same arguments that returns a value: a kind and a content (selector/selector_operand and
--              selector/selector_value)
--
--   rec        the record of a message (core/record)
--   head_end   the place of the NUL in front of its body
--   id         its lookup id
--
-- Change together with: mqredis/selector, which has the same rules in Python (tests/selector/test_differential.py compares them at
-- random), and docs/selectors.md. Programs are stored with subscriptions and waiting readers, so a letter keeps its meaning unless
-- the schema number changes; a new one needs no other number. tests/contract/test_arguments.py compares the letters. This holds for
-- all modules of this folder. Tests: tests/selector.
--
-- allowed: microseconds that one script may spend on a selector. What it spends is estimated, rather too high, from the
-- numbers of operands and of bytes, with the time to read the record.
local selector = { allowed = 4000 }

-- Compiles a program. Returns a table for selector.test, with these fields:
--
--   condition      of the whole selector
--   time_left      microseconds that the script may still spend on it; a search ends its call when nothing is left
--                  (filter.out_of_time)
--   time_fixed, time_per_byte   microseconds that one test takes: for a message, and for each byte of its record
function selector.compile(text)
  local compiled = { time_left = selector.allowed }
  local reader = selector_program.open(text, compiled, selector_condition.read)
  compiled.condition = selector_condition.read(reader, true)
  compiled.time_fixed, compiled.time_per_byte = 1.5 + 0.6 * reader.operands, 1 / 600 + reader.operands / 10000
  return compiled
end

-- Is the message selected? Unknown does not select.
function selector.test(compiled, rec, id)
  compiled.time_left = compiled.time_left - compiled.time_fixed - #rec * compiled.time_per_byte
  return compiled.condition(rec, string.find(rec, "\0", 15, true), id) == true -- 15: record.head_at
end
