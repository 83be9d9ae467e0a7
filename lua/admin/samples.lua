--- require "core/context"
--- used by stats, stats_sample
-- Samples of a queue's counters, from which stats.lua makes the rates: stats_sample.lua keeps two of them, the older one first, in
-- the field "sample" of the queue's hash:
--
--   "<ms> <came> <left>;<ms> <came> <left>"   ms: broker time; came, left: all messages that ever came, and all that have left
--
-- Nothing else reads this text. Tests: tests/msmq/test_requests.py.
--
-- period: ms after which stats.lua asks for a new sample, and stats_sample.lua takes it
local samples = { period = 10000 }

-- Returns the older and the newer sample of the text; nil if it has none.
function samples.parse(text)
  return string.match(text or "", "^(.*);(.*)$")
end

-- Returns the text of these samples.
function samples.format(older, newer)
  return older .. ";" .. newer
end

-- Returns ms, came and left of a sample, as numbers.
function samples.numbers(sample)
  local ms, came, left = string.match(sample, "^(%S+) (%S+) (%S+)$")
  return tonumber(ms), tonumber(came), tonumber(left)
end

-- Is the period since a sample over?
function samples.is_old(sample)
  return context.now - samples.numbers(sample) >= samples.period
end

-- Returns a sample of the queue as it is now.
function samples.now(q)
  return string.format("%.0f %.0f %.0f", context.now, q.messages + q.gone, q.gone)
end

-- Returns the sample of a queue's creation, when nothing had come. `created`: field of the queue's hash.
function samples.at_creation(created)
  return created .. " 0 0"
end
