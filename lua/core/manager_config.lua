--- require "core/cache"
--- used by core/context, manager_update, session_open
-- What each call needs of the manager's properties. Each property is a field of meta; the field "config" holds those that each call
-- needs as one text, so that a call reads one field and a function library parses it once (cache.managers):
--
--   "<schema> <incarnation> <clock> <throttled> <quota_messages> <quota_bytes> <lead>"
--   example: "6 8b2f0c66a1d24e07 0 0 1000  0"
--
--   schema          number of the form in which the data is stored
--   incarnation     16 hex digits; a manager that is made anew gets others
--   clock, lead     ms (core/context)
--   throttled       1 if the manager accepts no messages, else 0
--   quota_messages, quota_bytes   "" for no quota
--
-- Every script that changes one of these properties calls manager_config.save afterwards: context.set_time, manager_update and
-- session_open.
--
-- Change together with: a further part stands in manager_config.parse and manager_config.read, in session_open.lua, which writes
-- the properties of a new manager, and in the doctor (META_CONFIG in mqredis/operations/doctor/checks/queues.py, and the patterns
-- of checks/manager.py; tests/contract/test_constants.py compares). It takes a new schema number, since no build reads a text with
-- another number of parts.
--
-- schema: the only one that this build reads, and that which it writes (SCHEMA in mqredis/keys.py)
local manager_config = { schema = "6" }

-- Returns the manager as a table {incarnation, clock, lead, throttled, quota_messages, quota_bytes, limited}, which must not be
-- changed: numbers, false for no quota; limited: true if a send has to look at the quotas or is refused. If this build cannot use
-- the manager: nil, and the reply that says so. `text`: of "config"; false or "" if it has to be made from the properties.
function manager_config.parse(text)
  if not text or text == "" then text = manager_config.read() end
  if not text then return nil, { status.MANAGER_NOT_FOUND, "", 0 } end
  -- What follows the first two parts is another thing in a text of another schema.
  local schema, incarnation, rest = string.match(text, "^(%S*) ?(%S*)(.*)$")
  local clock, throttled, messages, bytes, lead = string.match(rest, "^ (%S*) (%S*) (%d*) (%d*) (%d*)$")
  if schema ~= manager_config.schema or not clock then
    local is_newer = (tonumber(schema) or 0) > tonumber(manager_config.schema)
    return nil, { is_newer and status.SCHEMA_TOO_NEW or status.SCHEMA_TOO_OLD, incarnation, 0 }
  end
  local manager = { incarnation = incarnation, clock = tonumber(clock) or 0, lead = tonumber(lead) or 0,
    throttled = throttled == "1", quota_messages = tonumber(messages) or false, quota_bytes = tonumber(bytes) or false,
    limited = throttled == "1" or messages ~= "" or bytes ~= "" }
  return cache.keep(cache.managers, text, manager)
end

-- Returns the text of "config" as the properties have it now; nil if there is no manager.
function manager_config.read()
  local properties = redis.call("HMGET", KEYS[1], "schema", "incarnation", "clock", "throttled", "quota_messages",
    "quota_bytes", "lead")
  if not properties[1] then return end
  for n = 2, 7 do properties[n] = properties[n] or "" end
  return table.concat(properties, " ")
end

-- Writes "config".
function manager_config.save()
  redis.call("HSET", KEYS[1], "config", manager_config.read())
end
