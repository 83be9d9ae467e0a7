--- used by core/context, core/locks, core/manager_config, core/queue, core/queue_config, features/features
-- What a function library keeps from call to call, so that the next call need not parse it again: tables that depend on
-- nothing but a text, by that text, and the tables of queues, by their first key (core/queue).
--
-- managers  by text of "config" (core/manager_config); queues: by config of a header (core/queue_config); ids: lists of ids, by
-- their text (core/locks); special: what a message asks for, by the keys in its head (features/features); tables: queues.
--
-- What is kept must not be changed by those who get it, but for the tables of queues. A new table is a line below, with `size`.
local cache = {
  managers = { size = 0 }, queues = { size = 0 }, ids = { size = 0 }, special = { size = 0 }, tables = { size = 0 },
}

-- Keeps `value` under `text` in one of these tables and returns it. A table with more than `most` values (500 if nil) is emptied
-- first.
function cache.keep(results, text, value, most)
  if results.size > (most or 500) then cache.clear(results) end
  results[text] = value
  results.size = results.size + 1
  return value
end

-- Empties one of these tables.
function cache.clear(results)
  for key in pairs(results) do results[key] = nil end
  results.size = 0
end

-- Keeps the table of a queue and returns it. `tables` is emptied only between two calls, by context.reset, since a call must
-- have one table of each queue. A table that replaces another one is counted as well: then they are emptied sooner.
function cache.keep_table(key, q)
  cache.tables[key] = q
  cache.tables.size = cache.tables.size + 1
  return q
end
