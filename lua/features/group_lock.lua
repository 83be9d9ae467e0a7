--- require "core/chunked"
--- require "core/context"
--- require lazy "core/record"
--- require "core/position"
--- require "core/store"
--- require lazy "matching/index"
--- used by claims/claims, claims/fill, features/features, lookup, matching/search, receive, waiting/notify
-- Queues with one active message of each group at a time, and fair turns between the groups (option group_exclusive;
-- q.locks_groups). A group is busy while a message of it is locked: no other one may be taken. Messages without a group count
-- as one group, with the id "", that is never busy. Subqueues have no turns.
--
-- Every message of such a queue is special (core/enqueue), so the hooks here see all of them. Readers ask group_lock.next_in_turn
-- for messages, and group_lock.busy where they ask for a particular one.
--
-- Members of q.index (matching/index has the others), all with score 0, which this module alone writes and reads:
--
--   "b" <group id> NUL <lookup id>   this message of the group is locked: the group is busy
--   "h" <priority> <group id>        the group is ready: it is not busy, and its first message, whose lookup id begins with these
--                                    two digits of the priority, is available
--
--   event                       member "b"   member "h"            readers are notified
--   a message arrives           removed      set, if not busy      by position.arrive
--   a locked message returns    removed      set, if not busy      by position.arrive, and of the others (q.freed)
--   a message is locked         added        removed
--   a locked message is deleted removed      set, if there is one  of the group's next message (group_lock.leave),
--                                                                  and of the others (q.freed)
--   an available one is deleted              set anew
--
-- Change together with: who counts or shows ready groups: group_lock.count_ready for claims; arrivals.suffice, search.take_group
-- and notify.left ask whether a group is busy. Every way in which a message of such a queue arrives or leaves runs the hooks here,
-- or sets the members itself: position.special, transactions/tx_parts and claims/fill look for that whether groups take turns.
-- Tests: tests/matching/test_exclusive_groups.py and test_group_corners.py.
--
-- Of groups with the same priority the turn goes round in the order of their ids: field "turnh<priority>" of q.key holds the id
-- of the group that had it last.
local group_lock = {}

-- Returns the group id of a record as the index has it (index.fields); "" if it has none. No id has the byte 255, so that "\255" is
-- behind all ids where members are read in a range.
function group_lock.group(rec)
  return index.fields(rec).group_id or ""
end

-- Returns the member "b" for a locked message of a group.
function group_lock.busy_member(group_id, id)
  return "b" .. group_id .. "\0" .. id
end

-- Returns the lookup id of a locked message of this group; nil if the group is not busy.
function group_lock.holder(q, group_id)
  local found = redis.call("ZRANGEBYLEX", q.index, "[b" .. group_id .. "\0", "(b" .. group_id .. "\1", "LIMIT", 0, 1)[1]
  return found and string.sub(found, -16)
end

-- Is the group of this message busy?
function group_lock.busy(q, rec)
  local group_id = group_lock.group(rec)
  return group_id ~= "" and group_lock.holder(q, group_id) ~= nil
end

-- Returns the lookup id of the first available message of a group; nil if there is none. This reads the index, which
-- features/identifiers has brought up to date: its hooks run before those of this module.
function group_lock.first_available(q, group_id)
  return index.range(q, index.letters.group_id, group_id, "", 1)[1]
end

-- Writes anew whether a group is ready: if it is not busy, which the caller says, and has an available message. Returns the lookup
-- id of its first available message if it is ready, else nil or false.
function group_lock.set_ready(q, group_id, is_busy)
  local members = {}
  for digits = 0, 7 do members[digits + 1] = string.format("h%02x", digits) .. group_id end
  redis.call("ZREM", q.index, unpack(members))
  local first = not is_busy and group_lock.first_available(q, group_id)
  if first then redis.call("ZADD", q.index, 0, "h" .. string.sub(first, 1, 2) .. group_id) end
  return first
end

-- Notes that a group is not busy any more. Readers of particular messages may want another message of it than the first one.
function group_lock.note_freed(q, group_id)
  if not q.waiting then return end
  q.freed = q.freed or { nil }
  q.freed[#q.freed + 1] = group_id
end

-- Hooks: features/features says when they are called, and what `batch` and `places` are --------------------------------

-- Keeps messages of busy groups from readers although they are available.
function group_lock.arrive(q, batch, places)
  for k = 1, #places do
    local place = places[k]
    if not batch.fates[place] then
      local group_id = group_lock.group(batch.records[place])
      -- Segments of one message are locked together: the group is free when the last of them is back.
      local was_busy = redis.call("ZREM", q.index, group_lock.busy_member(group_id, batch.ids[place])) == 1
      if group_id ~= "" and group_lock.holder(q, group_id) then
        batch.fates[place] = "busy"
      else
        group_lock.set_ready(q, group_id, false)
        if was_busy then group_lock.note_freed(q, group_id) end
      end
    end
  end
end

-- Makes the groups of messages that are locked busy. Where a locked message is deleted its group is ready again, and
-- readers are notified of its next message. A message that leaves without a lock may have been the first of its group.
function group_lock.leave(q, batch, places)
  for k = 1, #places do
    local id, group_id = batch.ids[places[k]], group_lock.group(batch.records[places[k]])
    if batch.locked and group_id ~= "" then
      redis.call("ZADD", q.index, 0, group_lock.busy_member(group_id, id))
      group_lock.set_ready(q, group_id, true)
    else
      local was_busy = redis.call("ZREM", q.index, group_lock.busy_member(group_id, id)) == 1
      local first = group_lock.set_ready(q, group_id, group_lock.holder(q, group_id) ~= nil)
      if was_busy and first then
        store.announce(q, { first }) -- as of a message that arrives
        group_lock.note_freed(q, group_id)
      end
    end
  end
end

-- Ready groups ----------------------------------------------------------------------------------------------------------

-- Returns up to `count` entries, the first message of each group whose turn it is, and their group ids by lookup id. The
-- caller moves the turn on (group_lock.move_turns) once it takes them.
function group_lock.next_in_turn(q, count)
  local found, groups, from = {}, {}, "[h"
  while #found < count do
    local next_ready = redis.call("ZRANGEBYLEX", q.index, from, "(i", "LIMIT", 0, 1)[1]
    if not next_ready then break end
    local stem = string.sub(next_ready, 1, 3) -- "h" and the two digits of the priority
    group_lock.append_next(q, stem, count, found, groups)
    from = "(" .. stem .. "\255"
  end
  return found, groups
end

-- Notes that the groups of these messages had their turn. `groups`: as group_lock.next_in_turn returned them.
function group_lock.move_turns(q, groups, ids)
  local fields = { nil, nil }
  for n = 1, #ids do
    fields[n * 2 - 1], fields[n * 2] = "turnh" .. string.sub(ids[n], 1, 2), groups[ids[n]]
  end
  chunked.run("HSET", q.key, fields)
end

-- Appends to `found`, up to `count` elements in all, the first messages of ready groups whose members begin with `stem`, "h" and a
-- priority: those behind the group that had the turn last, and then the others. Notes their groups in `groups`.
function group_lock.append_next(q, stem, count, found, groups)
  local last = redis.call("HGET", q.key, "turn" .. stem)
  local from, upto = last and "(" .. stem .. last or "[" .. stem, "[" .. stem .. "\255"
  local ready = redis.call("ZRANGEBYLEX", q.index, from, upto, "LIMIT", 0, count)
  if last then
    local others = redis.call("ZRANGEBYLEX", q.index, "[" .. stem, "[" .. stem .. last, "LIMIT", 0, count - #ready)
    for n = 1, #others do ready[#ready + 1] = others[n] end
  end
  for n = 1, #ready do
    local group_id = string.sub(ready[n], 4)
    local entry = position.read(q, { group_lock.first_available(q, group_id) })[1]
    if entry and #found < count and not record.is_expired(entry.rec, context.now) then
      found[#found + 1] = entry
      groups[entry.id] = group_id
    end
  end
end

-- Returns how many groups are ready whose first message has a SequentialID not above `bound` ("" for any). Looks at no more
-- than `most` groups; those behind count.
function group_lock.count_ready(q, bound, most)
  local count = redis.call("ZLEXCOUNT", q.index, "[h", "(i")
  if bound == "" or count == 0 then return count end
  local ready = redis.call("ZRANGEBYLEX", q.index, "[h", "(i", "LIMIT", 0, most)
  count = count - #ready
  for n = 1, #ready do
    local first = group_lock.first_available(q, string.sub(ready[n], 4))
    if first and string.sub(first, 3) <= bound then count = count + 1 end
  end
  return count
end

group_lock.hooks = { arrive = group_lock.arrive, leave = group_lock.leave }
