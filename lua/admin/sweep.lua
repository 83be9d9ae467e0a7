--- require "core/chunked"
--- require "core/context"
--- require "core/position"
--- require "core/record"
--- require "core/queue"
--- require lazy "claims/claim_pages"
--- require "core/store"
--- require "core/message_state"
--- used by purge, queue_delete
-- Removal of many messages at once, for purge and delete.
local sweep = { page = 256 }

-- Locked -> PurgePending for everything a reader holds; no peek sees it any more (D6 in docs/semantics.md). Uncommitted sends
-- survive a purge (D18); what a claim has received is only not removed yet.
function sweep.pending(q)
  local ids, known = redis.call("ZRANGE", q.locked, 0, -1), {}
  for from = 1, #ids, 500 do
    local entries = position.read(q, { unpack(ids, from, math.min(from + 499, #ids)) })
    local states = {}
    for n = 1, #entries do
      local st = entries[n].st
      if not message_state.is_sent(st) and not message_state.is_purged(st)
        and not sweep.received(q, st, known) then
        if message_state.is_visible(st) then redis.call("ZREM", q.index, "v" .. entries[n].lid) end
        message_state.purge(st)
        states[#states + 1] = entries[n].lid
        states[#states + 1] = message_state.format(st)
      end
    end
    if #states > 0 then
      store.change_locks(q, states)
      context.mark_changed()
    end
  end
  claim_pages.load()
  for _, list in ipairs(claim_pages.lists(q)) do
    if tonumber(list.seq) > sweep.committed(q, list.owner, known) then
      claim_pages.unpack_all(q, list, "CP")
    end
  end
end

-- Is it a message of a claim that is committed? `known`: up to where each owner's are.
function sweep.received(q, st, known)
  return message_state.is_claimed(st) and tonumber(st.fence) <= sweep.committed(q, st.owner, known)
end

-- Up to which sequence this owner has committed its claims.
function sweep.committed(q, owner, known)
  if not known[owner] then
    claim_pages.load()
    known[owner] = claim_pages.committed(q, owner)
  end
  return known[owner]
end

-- Removes what is not locked and not newer than `limit` (14 hex digits). Returns how many, and whether to call again.
-- Where no message ever asked for anything and none rests in ;retry, all goes with a few UNLINKs: deleting 300,000
-- fields would stop the server for 91 ms.
function sweep.clear(q, limit, reason)
  local locked = redis.call("ZRANGE", q.locked, 0, -1)
  claim_pages.load()
  if #locked <= sweep.page and #claim_pages.lists(q) == 0 and not q.has_special and not q.options.retry
    and limit == string.format("%014x", tonumber(context.seq)) then
    return sweep.unlink(q, locked), false
  end
  local old, from, ids = {}, 0
  repeat
    ids = redis.call("ZRANGE", q.available, from, from + sweep.page - 1)
    from = from + sweep.page
    for n = 1, #ids do
      if string.sub(ids[n], 3) <= limit then old[#old + 1] = ids[n] end
    end
  until #ids == 0 or #old > 0
  from = 0
  repeat
    local members = redis.call("ZRANGE", q.timers, from, from + sweep.page - 1)
    from = from + sweep.page
    for n = 1, #members do
      local lid = string.sub(members[n], 2)
      if string.sub(members[n], 1, 1) == "d" and string.sub(lid, 3) <= limit then old[#old + 1] = lid end
    end
  until #members == 0 or #old > 0
  local entries = position.read(q, old)
  if not position.may_leave(q, entries, reason) then return end
  position.delete(q, entries, reason)
  return #entries, #old > 0
end

function sweep.unlink(q, locked)
  local entries, bytes, fields, states, marks = position.read(q, locked), 0, {}, {}, {}
  for n = 1, #entries do
    local e = entries[n]
    bytes = bytes + e.st.size
    fields[#fields + 1] = e.lid
    fields[#fields + 1] = e.rec
    if record.has_large_body(e.rec) then
      fields[#fields + 1] = "^" .. e.lid
      fields[#fields + 1] = redis.call("HGET", q.records, "^" .. e.lid)
    end
    states[#states + 1] = e.lid
    states[#states + 1] = message_state.format(e.st)
    if message_state.is_visible(e.st) then
      marks[#marks + 1] = 0
      marks[#marks + 1] = "v" .. e.lid
    end
  end
  local removed = q.messages - #entries
  if removed == 0 then return 0 end
  -- Readers that wait for an identifier stay (waiting/match_waiters).
  local readers = q.waiting and redis.call("ZRANGEBYLEX", q.index, "[w", "(x") or {}
  for n = 1, #readers do
    marks[#marks + 1] = 0
    marks[#marks + 1] = readers[n]
  end
  store.drop_all_but(q, fields, states)
  if #marks > 0 then chunked.scores(q.index, marks) end
  store.count(q, -removed, bytes - q.bytes)
  store.count_event(q, "n_queue_purged", removed)
  context.mark_changed()
  return removed
end

-- Up to a page of a queue's messages, whatever their state, for its deletion. Those that an open transaction has sent
-- are left out: they were never there, and go without a trace.
function sweep.doomed(q)
  local ids = redis.call("ZRANGE", q.available, 0, sweep.page - 1)
  if #ids == 0 then
    local from, members = 0
    repeat
      members = redis.call("ZRANGE", q.timers, from, from + sweep.page - 1)
      from = from + sweep.page
      for n = 1, #members do
        if string.sub(members[n], 1, 1) == "d" then ids[#ids + 1] = string.sub(members[n], 2) end
      end
    until #members == 0 or #ids > 0
  end
  local entries, locked = position.read(q, ids), {}
  if #entries > 0 then return entries end
  sweep.unpack(q)
  local from = 0
  repeat
    ids = redis.call("ZRANGE", q.locked, from, from + sweep.page - 1)
    from = from + sweep.page
    entries = position.read(q, ids)
    for n = 1, #entries do
      if not message_state.is_sent(entries[n].st) then locked[#locked + 1] = entries[n] end
    end
  until #ids == 0 or #locked > 0
  return locked
end

-- If there are packed pages, one becomes loose.
function sweep.unpack(q)
  claim_pages.load()
  for _, list in ipairs(claim_pages.lists(q)) do
    local lowest = claim_pages.lowest(q, list)
    if lowest then return claim_pages.unpack(q, list, lowest, "CN") end
  end
end
