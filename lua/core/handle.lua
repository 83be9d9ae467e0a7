--- require "core/context"
--- used by core/session, queue_close, queue_delete, queue_info, queue_open
-- Open handles on queues (OpenQueueDescriptor, 3.1.1.16): members "<encoded queue>|<session>|<number>|<access>|<share>" of the
-- zset `handles`, for example "orders|12|3|receive|none". All have score 0, so those of one queue stand together. A handle whose
-- session is gone is gone, too. Access is one of Access in mqredis/models/enums.py, share "deny" or "none"
-- (mqredis/operations/handle.py).
--
-- Change together with: `_ALLOWED` in mqredis/operations/open_queue.py, which refuses what a handle may not do; its row "receive"
-- is handle.receives (tests/contract/test_constants.py compares). The doctor reads the members (`handles` in
-- mqredis/operations/doctor/checks/sessions.py). tests/conformance/test_open.py has the rules of access and share.
--
-- In ranges of members "}" is the byte behind "|", and "~" is behind all letters.
--
-- key: the place of `handles` in KEYS, in scripts with "KEYS admin".
local handle = { key = 4 }

-- Returns the session of a handle, as text.
function handle.owner(member)
  return string.match(member, "^[^|]*|(%d+)|")
end

-- Adds a handle of this call's session. `name`: of the queue, encoded.
function handle.add(name, number, access, share)
  local member = name .. "|" .. context.owner() .. "|" .. number .. "|" .. access .. "|" .. share
  redis.call("ZADD", KEYS[handle.key], 0, member)
end

-- Removes a handle of this call's session.
function handle.remove(name, number)
  local stem = name .. "|" .. context.owner() .. "|" .. number .. "|"
  redis.call("ZREMRANGEBYLEX", KEYS[handle.key], "[" .. stem, "(" .. stem .. "~")
end

-- Removes all handles on a queue.
function handle.remove_all(name)
  redis.call("ZREMRANGEBYLEX", KEYS[handle.key], "[" .. name .. "|", "(" .. name .. "}")
end

-- Returns the handles on a queue whose sessions exist, each as a table {member, access, share}.
function handle.all(name)
  local found = {}
  local members = redis.call("ZRANGEBYLEX", KEYS[handle.key], "[" .. name .. "|", "(" .. name .. "}")
  for n = 1, #members do
    local owner, access, share = string.match(members[n], "^[^|]*|(%d+)|[^|]*|(%l+)|(%l+)$")
    if redis.call("HEXISTS", KEYS[1], owner) == 1 then
      found[#found + 1] = { member = members[n], access = access, share = share }
    end
  end
  return found
end

-- Do handles with this access take messages?
function handle.receives(access)
  return access == "receive" or access == "admin" or access == "all"
end

-- May a handle with this access and share mode be opened beside `other`? (MS-MQDMPR 3.1.7.1.5)
function handle.allows(other, access, share)
  if handle.receives(other.access) then
    if share == "deny" then return false end
    return not (other.share == "deny" and handle.receives(access))
  end
  return not (other.access == "peek" and other.share == "deny" and handle.receives(access))
end
