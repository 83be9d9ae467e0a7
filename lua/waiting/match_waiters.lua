--- require "core/context"
--- require lazy "matching/filter"
--- require lazy "matching/search"
--- require lazy "features/group"
--- require lazy "matching/index"
--- require lazy "waiting/notify"
--- require lazy "matching/arrivals"
--- used by waiting/notify, waiting/waiters
-- Waiting readers that want a particular message. They are asked before the others (IBM MQ: MQGMO_WAIT), and only about
-- what they match. In q.waiters their scores lie below 0, with their filter behind the tag: those found by an identifier,
-- as "w" key id NUL member of q.index, from match_waiters.indexed on, the rest below that.
-- members: of a group that one arrival asks about.
local match_waiters = { indexed = -1125899906842624, most = 256, members = 64 }

function match_waiters.enlist(q, member, ticket, text)
  filter.load()
  local key = filter.key(text)
  if key then redis.call("ZADD", q.index, 0, "w" .. key .. "\0" .. member) end
  return redis.call("ZADD", q.waiters, "NX", match_waiters.indexed * (key and 1 or 2) + tonumber(ticket), member) == 1
end

function match_waiters.remove(q, member, text)
  filter.load()
  local key = filter.key(text)
  if key then redis.call("ZREM", q.index, "w" .. key .. "\0" .. member) end
  local gone = redis.call("ZREM", q.waiters, member)
  if gone == 1 and not key and not match_waiters.unindexed(q, 1)[1] then
    arrivals.load()
    arrivals.forget(q)
  end
  return gone
end

-- Up to `count` readers that no identifier finds.
function match_waiters.unindexed(q, count)
  return redis.call("ZRANGEBYSCORE", q.waiters, "-inf", string.format("(%d", match_waiters.indexed), "LIMIT", 0, count)
end

-- Readers that this message might be for: by its identifiers, then those that no identifier finds.
function match_waiters.candidates(q, lid, rec, others)
  local r, found = index.fields(rec), {}
  local keys = { "i" .. lid, "m" .. (r.message_id or "smq-" .. lid), r.correlation_id and "c" .. r.correlation_id,
    r.group_id and "g" .. r.group_id }
  for n = 1, 4 do
    if keys[n] then
      local stem = "w" .. keys[n] .. "\0"
      local members = redis.call("ZRANGEBYLEX", q.index, "[" .. stem, "(w" .. keys[n] .. "\1", "LIMIT", 0, 64)
      for k = 1, #members do found[#found + 1] = string.sub(members[k], #stem + 1) end
    end
  end
  for n = 1, #others do found[#found + 1] = others[n] end
  return found
end

-- Is this arrival something for the reader? "this": the very message that it wants; "part": that one, or another of its
-- group that it may have now; "error": it ends the wait, but is not taken. Nothing if the reader could not use it.
function match_waiters.suits(q, f, lid, rec)
  if f.next_group then return match_waiters.follows(q, f, lid, rec) end
  local needs = f.needs_group and index.fields(rec).group_id
  if (not f.after or lid > f.after) and search.admits(q, f, lid, rec) then return needs and "part" or "this" end
  return needs and match_waiters.completes(q, f, rec) and "part" or nil
end

-- Does a peek with this filter change marks, or return more than the message that arrived? Then it has to call again.
function match_waiters.changes(f)
  return f.mark or f.mark_cooperative or f.complete_message or f.whole_group
end

-- Inside a group only the next member counts; what disagrees with it is an error (search.next).
function match_waiters.follows(q, f, lid, rec)
  local r, o = index.fields(rec), f.next_offset
  if r.group_id ~= f.next_group or r.sequence ~= f.next_sequence then return end
  f.programs = {}
  local next, found = lid, "this"
  if f.complete_message then
    -- Any of its segments may be the one that makes it whole.
    if not group.walk(q, r.group_id, r.sequence, true) then return end
    next, found = group.at(q, r.group_id, r.sequence, o), "part"
  elseif r.offset ~= o then
    return
  end
  rec = next and redis.call("HGET", q.records, next)
  return rec and (filter.test(f, next, rec) and found or "error") or nil
end

-- May the reader have another message of the group, now that this one is there? Asked of those that options for groups
-- leave; of too many it is not known, and a reader that is notified in vain passes the notification on (waiters.wait).
function match_waiters.completes(q, f, rec)
  local r, whole, first = index.fields(rec), f.all_messages or f.whole_group, f.logical_order or f.whole_group
  if f.group_id and f.group_id ~= r.group_id or whole and not group.whole(q, r.group_id) then return false end
  if not whole and not group.walk(q, r.group_id, r.sequence, true) then return false end
  local ids
  if whole and not first then
    ids = index.range(q, "g", r.group_id, f.after or "", match_waiters.members + 1)
  elseif whole or not first or r.sequence == 1 then
    ids = group.members(q, r.group_id, first and 1 or r.sequence, (first or f.complete_message) and 0 or nil)
  end
  if not ids or #ids == 0 then return false end
  if #ids > match_waiters.members then return true end
  local recs = redis.call("HMGET", q.records, unpack(ids))
  for n = 1, #ids do
    if recs[n] and (not f.after or ids[n] > f.after) and search.admits(q, f, ids[n], recs[n]) then return true end
  end
  return false
end

-- Offers each arrival to the readers that want something particular; returns those that none of them took. `peeks`,
-- `behind` as in notify.offer.
function match_waiters.notify_one(q, ids, peeks, behind)
  filter.load()
  search.load()
  index.load()
  group.load()
  -- What a search of this script knew of groups may have been taken since.
  context.groups = {}
  local others = match_waiters.unindexed(q, match_waiters.most)
  if #others > 0 and not behind then
    arrivals.load()
    arrivals.note(q, ids)
  end
  local rest, parsed, served = {}, {}, {}
  for n = 1, #ids do
    local rec, taken = redis.call("HGET", q.records, ids[n]), false
    local members = rec and match_waiters.candidates(q, ids[n], rec, others) or {}
    local asked = behind ~= nil
    for k = 1, #members do
      local member = members[k]
      local slot, kind, mode, text = string.match(member, "^(%S+) (%S) (%S+) %S+ (.*)$")
      if not asked and not taken and not served[member] and (kind == "P" or not peeks) then
        parsed[member] = parsed[member] or filter.parse(text)
        local suits = match_waiters.suits(q, parsed[member], ids[n], rec)
        if suits then
          if suits == "this" and kind == "P" and not match_waiters.changes(parsed[member]) then
            notify.hand(q, slot, ids[n])
          else
            redis.call("HSET", KEYS[1], slot .. "!", (suits == "this" and "h " or "n ") .. ids[n])
          end
          taken = notify.one(slot, mode) and kind ~= "P" and suits ~= "error"
          served[member] = true
          match_waiters.remove(q, member, text)
        end
      end
      if member == behind then asked = false end
    end
    if not taken then rest[#rest + 1] = ids[n] end
  end
  return rest
end
