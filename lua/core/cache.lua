-- What a function library keeps from call to call: results that depend on a text alone, by that text. All other state of a
-- call is in core/context, which forgets it when the next call begins.
local cache = {
  managers = { size = 0 }, queues = { size = 0 }, ids = { size = 0 }, special = { size = 0 },
}

-- Keeps a result, at most `most` of them in one of these tables (500 if not given), and returns it.
function cache.keep(results, text, value, most)
  if results.size > (most or 500) then
    for key in pairs(results) do results[key] = nil end
    results.size = 0
  end
  results[text] = value
  results.size = results.size + 1
  return value
end
