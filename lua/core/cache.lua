--- used by core/context, core/locks, core/manager_config, core/queue, core/queue_config, features/features
-- What a function library keeps from call to call, so that the next call need not parse it again. Scripts that run by EVALSHA
-- keep nothing: each call begins with empty tables.
--
--   managers  by the text "config" of a manager, the table that core/manager_config makes of it
--   queues    by the config of a queue, the table that core/queue_config makes of it
--   ids       by ids that stand one behind the other, the list of them (core/locks)
--   special   by the keys in the head of a message, what such a message asks for (features/features)
--   tables    by the first key of a queue, its table (core/queue)
--
-- Calls change the tables of queues; tests/contract/test_reuse.py compares these with what is stored. What is in the others depends
-- on its text alone, and must not be changed by those who get it. A further one is a line below, with `size`.
--
-- most: values in one of these tables beyond which it is emptied, since a server keeps a library for ever
local cache = { most = 500,
  managers = { size = 0 }, queues = { size = 0 }, ids = { size = 0 }, special = { size = 0 }, tables = { size = 0 },
}

-- Keeps `value` under `text` in one of these tables, but for `tables`, and returns it. The table is emptied first if it has more
-- than `most` values, cache.most if nil.
function cache.keep(kept, text, value, most)
  if kept.size > (most or cache.most) then cache.clear(kept) end
  kept[text] = value
  kept.size = kept.size + 1
  return value
end

-- Empties one of these tables.
function cache.clear(kept)
  for key in pairs(kept) do kept[key] = nil end
  kept.size = 0
end

-- Keeps the table of a queue and returns it. A call must have one table of each queue, so `tables` is emptied between two calls, by
-- context.reset. A table that replaces another one is counted as well: then they are emptied sooner.
function cache.keep_table(key, q)
  cache.tables[key] = q
  cache.tables.size = cache.tables.size + 1
  return q
end
