--- require "core/cache"
--- used by core/queue, queue_update
-- The properties of a queue that scripts decide by. Each is a field of the queue's hash q.key; the first part of the queue's header
-- (core/queue) holds them as one text, the config, so that a call reads them with the header:
--
--   "<generation>|<flags>|<max_bytes>|<quota_messages>|<quota_bytes>|<index>", "" for a field that is missing
--   example: "7|tj|4194304|1000||0"
--
--   generation  a number that no other queue of the manager ever had (admin/create)
--   flags       letters of the options that are set
--   max_bytes   of one message
--   quota_messages, quota_bytes   "" for no quota
--   index       the available messages up to this id are in the index of identifiers, the others are not (queue.reach,
--               matching/index_build)
--
-- Change together with: a new flag stands in `letters`, and in FLAGS or POLICY_FLAGS of mqredis/commands/queues.py
-- (tests/contract/test_fields.py compares); CONTRIBUTING.md has an example. Scripts of earlier releases fail at an unknown letter,
-- so it takes a new schema number if they work beside these. A new part stands in queue_config.parse and queue_config.read,
-- queue.parse (core/queue) and QUEUE_CONFIG of mqredis/operations/doctor/checks/queues.py (tests/contract/test_constants.py
-- compares); headers hold the text, so it takes a new schema number (core/manager_config). The index stays the last part
-- (queue.set_indexed). Scripts that write one of these fields of the hash call queue.save_config (core/queue).
--
-- letters: the letters of the flags, with the options they stand for: properties of QueueProperties (mqredis/models/queue.py), and
-- `system`, a queue that the broker keeps (queue_ensure.lua)
local queue_config = {
  letters = { t = "transactional", j = "journaling", p = "put_inhibited", g = "get_inhibited", x = "group_exclusive",
    f = "topic", r = "retry", l = "trail", s = "system" },
}

-- Returns the properties in a config as a table, which must not be changed; nil if there is no such queue. `text`: the config; nil
-- if it has to be made from the hash `key`. The fields: generation, flags and index as texts; options: of
-- queue_config.parse_options; max_bytes, and quota_messages and quota_bytes, nil for no quota, as numbers; stem: the config without
-- the index; config: all of it.
function queue_config.parse(key, text)
  text = text or queue_config.read(key)
  local stem, generation, flags, max_bytes, messages, bytes, upto =
    string.match(text or "", "^((%d+)|(%a*)|(%d*)|(%d*)|(%d*))|?([^|]*)$")
  if not stem then return end
  return cache.keep(cache.queues, text, { generation = generation, flags = flags,
    options = queue_config.parse_options(flags), max_bytes = tonumber(max_bytes),
    quota_messages = tonumber(messages), quota_bytes = tonumber(bytes), index = upto, stem = stem, config = text })
end

-- Returns the config as the hash has it now; nil if there is no such queue.
function queue_config.read(key)
  local fields = redis.call("HMGET", key, "generation", "flags", "max_bytes", "quota_messages", "quota_bytes", "index")
  for n = 2, 6 do fields[n] = fields[n] or "" end
  return fields[1] and table.concat(fields, "|")
end

-- Returns a table with true for each option of these flags, and false for `transactional`, which callers compare.
function queue_config.parse_options(flags)
  local options = { transactional = false }
  for letter in string.gmatch(flags, ".") do options[queue_config.letters[letter]] = true end
  return options
end
