--- require "core/context"
--- used by queue_close, queue_delete, queue_info, queue_open
-- Open handles (OpenQueueDescriptor, 3.1.1.16): members "<encoded queue>|<session>|<number>|<access>|<share>" of
-- KEYS[4], all with score 0, so those of one queue stand together. A handle whose session is gone is gone too.
local handle = {}

-- Adds a handle of this call's session. `name`: of the queue, encoded.
function handle.add(name, number, access, share)
  redis.call("ZADD", KEYS[4], 0, name .. "|" .. context.owner() .. "|" .. number .. "|" .. access .. "|" .. share)
end

-- Removes a handle of this call's session.
function handle.remove(name, number)
  local stem = name .. "|" .. context.owner() .. "|" .. number .. "|"
  redis.call("ZREMRANGEBYLEX", KEYS[4], "[" .. stem, "(" .. stem .. "~")
end

-- Removes all handles on a queue.
function handle.remove_all(name)
  redis.call("ZREMRANGEBYLEX", KEYS[4], "[" .. name .. "|", "(" .. name .. "}")
end

-- The handles on a queue whose sessions exist, each {member, access, share}.
function handle.all(name)
  local found = {}
  local members = redis.call("ZRANGEBYLEX", KEYS[4], "[" .. name .. "|", "(" .. name .. "}")
  for n = 1, #members do
    local owner, access, share = string.match(members[n], "^[^|]*|(%d+)|[^|]*|(%l+)|(%l+)$")
    if redis.call("HEXISTS", KEYS[1], owner) == 1 then
      found[#found + 1] = { member = members[n], access = access, share = share }
    end
  end
  return found
end

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
