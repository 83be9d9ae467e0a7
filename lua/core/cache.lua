--- used by core/context, core/locks, core/queue, features/features
-- What a function library keeps from call to call: results that depend on a text alone, by that text; and the tables of
-- queues, by their first key (core/queue). All other state of a call is in core/context.
local cache = {
  managers = { size = 0 }, queues = { size = 0 }, ids = { size = 0 }, special = { size = 0 }, tables = { size = 0 },
}

-- Keeps a result, at most `most` of them in one of these tables (500 if not given), and returns it.
function cache.keep(results, text, value, most)
  if results.size > (most or 500) then cache.clear(results) end
  results[text] = value
  results.size = results.size + 1
  return value
end

function cache.clear(results)
  for key in pairs(results) do results[key] = nil end
  results.size = 0
end

-- Keeps the table of a queue. None goes while a call lasts, since a call has one table of each queue: context.reset makes
-- room.
function cache.keep_table(key, q)
  local tables = cache.tables
  if not tables[key] then tables.size = tables.size + 1 end
  tables[key] = q
  return q
end
