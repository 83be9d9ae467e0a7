-- The header of a queue, the field of meta whose name is the queue's first key: what each call reads of the queue and most
-- calls write. mqredis/operations/snapshot.py reads it, too.
--
--   "<config> <messages> <bytes> <gone> <due> <waiting> <marks><locks>"
--
--   config    what its properties mean for the scripts: "generation|flags|max_bytes|quota_messages|quota_bytes|index".
--             index: of the available messages those up to this id are in the index of identifiers, and no others
--             (matching/index_build)
--   messages  in the queue, whatever their state, and their bytes; gone: how many have left it
--   due       when its timers have to be looked at, in ms; -1 never
--   waiting   1 if readers may wait
--   marks     the sum of 1 if a message has come whose record sets it apart, 2 if an available message may have a state,
--             and 4 for each text of locks that stands beside the header
--   locks     of readers that locked plain messages (core/locks)
local queue_header = { pattern = "^(%S+) (%d+) (%d+) (%d+) (%-?%d+) ([01]) (%d+)(.*)$" }

-- Config, messages, bytes, gone, due, waiting, marks and locks, as texts; nothing if the text is not sound.
function queue_header.parse(text)
  return string.match(text or "", queue_header.pattern)
end

function queue_header.format(q)
  return q.config .. queue_header.counters(q) .. q.locks
end

-- What changes from call to call, but for locks.
function queue_header.counters(q)
  local marks = 4 * q.lock_texts + (q.has_special and 1 or 0) + (q.has_states and 2 or 0)
  return string.format(" %d %d %d %d %d %d", q.messages, q.bytes, q.gone, q.due or -1, q.waiting and 1 or 0, marks)
end

-- Generation, flags, limits of bytes and messages, and reach of the index that a config names; nothing if it is not sound.
-- The first value is the config without the last field.
function queue_header.parse_config(text)
  return string.match(text or "", "^((%d+)|(%a*)|(%d*)|(%d*)|(%d*))|?([^|]*)$")
end

-- The config that these properties make: generation, flags, max_bytes, quota_messages, quota_bytes, index.
function queue_header.format_config(properties)
  for n = 2, 6 do properties[n] = properties[n] or "" end
  return table.concat(properties, "|")
end
