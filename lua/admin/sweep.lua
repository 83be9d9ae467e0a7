--- require "core/chunked"
--- require "core/context"
--- require "core/position"
--- require "core/removal"
--- require lazy "core/record"
--- require lazy "claims/claims"
--- require lazy "claims/claim_pages"
--- require lazy "claims/loosen"
--- require "core/store"
--- require "core/timers"
--- require lazy "core/message_state"
--- used by purge, queue_delete
-- Removes the messages of a whole queue, for a purge or a deletion, some in each call.
--
-- A purge removes what is available or delayed, and marks what is locked: a message with this mark leaves when its lock ends
-- (D6 in docs/semantics.md). What an open transaction has sent survives a purge (D18). A deletion removes everything.
--
-- page         messages that one call removes, of available and of delayed ones each
-- locked_page  messages that one command reads while all locked ones are marked: more, since only their states are written
--
-- Both are well below what unpack can return.
--
-- Change together with: claims/drain and claims/loosen, for what a claim holds; core/release, which removes a message with the mark
-- when its lock ends. sweep.may_unlink has to say no where messages may have something outside of the keys of their queue.
-- Tests: tests/conformance/test_purge.py, test_delete.py; with claims tests/client/test_claims.py, test_claim_random_runs.py.
local sweep = { page = 256, locked_page = 500 }

-- Locked messages -------------------------------------------------------------------------------------------------------

-- Marks all locked messages as purged, so that no peek sees them any more, but for those that a transaction has sent, and
-- those of committed claims, which count as received already. For the first call of a purge, which writes this even if it asks for
-- more keys then: messages that are marked already are left alone when the call is repeated.
function sweep.mark_locked(q)
  local ids, committed = redis.call("ZRANGE", q.locked, 0, -1), sweep.committed_claims(q)
  for from = 1, #ids, sweep.locked_page do
    local entries = position.read(q, { unpack(ids, from, math.min(from + sweep.locked_page - 1, #ids)) })
    local id_states = { nil, nil } -- id, state, id, state, ...
    for n = 1, #entries do
      local state = entries[n].state
      local is_received = message_state.is_claimed(state) and tonumber(state.fence) <= (committed[state.owner] or -1)
      if not is_received and not message_state.is_sent(state) and not message_state.is_purged(state) then
        local id = entries[n].id
        if message_state.is_visible(state) then redis.call("ZREM", q.index, message_state.visible_member(id)) end
        message_state.purge(state)
        id_states[#id_states + 1] = id
        id_states[#id_states + 1] = message_state.format(state)
      end
    end
    if id_states[1] then
      store.change_locks(q, id_states)
      context.mark_changed()
    end
  end
  for _, list in ipairs(claim_pages.lists(q)) do
    local is_received = tonumber(list.seq) <= (committed[list.owner] or -1)
    if not is_received then loosen.all(q, list, message_state.purged_claim) end
  end
end

-- Returns the sequence number up to which each owner has committed its claims, by owner.
function sweep.committed_claims(q)
  local committed = {}
  for _, claim in ipairs(claims.all(q)) do committed[claim.owner] = claim.committed end
  return committed
end

-- Purge -----------------------------------------------------------------------------------------------------------------

-- Removes a page of messages that are not locked, and whose SequentialID is not above `limit` (14 hex digits). Returns how
-- many, and whether there may be more; nil if context.missing names queues that this takes.
function sweep.purge(q, limit)
  local locked = redis.call("ZRANGE", q.locked, 0, -1)
  if sweep.may_unlink(q, locked, limit) then return sweep.unlink_all_but(q, locked), false end
  local old = sweep.old_available(q, limit)
  sweep.append_delayed(q, old, limit)
  local entries = position.read(q, old)
  if not removal.plan(q, entries, "queue_purged") then return end
  removal.delete(q, entries, "queue_purged")
  -- An id without a record, which the doctor removes, must not make the client call again for ever.
  return #entries, #entries > 0
end

-- May all messages but the locked ones go with one UNLINK of the queue's keys? If no message ever asked for anything, no
-- claim has pages, and none is newer than the purge. q.has_special stays set from the first message that asked for a feature,
-- also one with a trail or a timer. q.timers stays: what is left there is of messages in ;retry, ;lapsed and ;poison, or the
-- dedup keys of a topic. Deleting fields instead takes long in one command: 91 ms for 300,000 of them.
function sweep.may_unlink(q, locked, limit)
  return #locked <= sweep.page and #claim_pages.lists(q) == 0 and not q.has_special
    and limit == context.last_sequential()
end

-- Removes all messages but these locked ones, whose parts are written again. Returns how many. Arrivals and browse marks go with
-- the index (matching/index): a message that comes back is noted anew, and only one that was locked after the purge began does.
function sweep.unlink_all_but(q, locked)
  -- records, states: field, value, ...; members: score, member, ... of the index.
  local entries, bytes, records, states, members = position.read(q, locked), 0, {}, {}, {}
  for n = 1, #entries do
    local entry = entries[n]
    bytes = bytes + entry.state.size
    records[#records + 1] = entry.id
    records[#records + 1] = entry.rec
    if record.has_large_body(entry.rec) then
      records[#records + 1] = "^" .. entry.id
      records[#records + 1] = redis.call("HGET", q.records, "^" .. entry.id)
    end
    states[#states + 1] = entry.id
    states[#states + 1] = message_state.format(entry.state)
    if message_state.is_visible(entry.state) then
      members[#members + 1] = 0
      members[#members + 1] = message_state.visible_member(entry.id)
    end
  end
  local removed = q.messages - #entries
  if removed == 0 then return 0 end
  -- Readers that wait for an identifier stay (waiting/match_waiters).
  local readers = q.waiting and redis.call("ZRANGEBYLEX", q.index, "[w", "(x") or {}
  for n = 1, #readers do
    members[#members + 1] = 0
    members[#members + 1] = readers[n]
  end
  store.drop_all_but(q, records, states)
  if #members > 0 then chunked.scores(q.index, members) end
  store.count(q, -removed, bytes - q.bytes)
  store.count_event(q, "n_queue_purged", removed)
  context.mark_changed()
  return removed
end

-- Reads available messages page by page until a page has ids whose SequentialIDs are not above `limit`, and returns these.
-- Newer messages of a higher priority may stand before them.
function sweep.old_available(q, limit)
  local old, from = {}, 0
  repeat
    local ids = redis.call("ZRANGE", q.available, from, from + sweep.page - 1)
    from = from + sweep.page
    for n = 1, #ids do
      if string.sub(ids[n], 3) <= limit then old[#old + 1] = ids[n] end
    end
  until #ids == 0 or #old > 0
  return old
end

-- Appends to `ids` those of a page of timers that belong to delayed messages, whose SequentialID is not above `limit` if
-- that is given. Reads on until `ids` has an element, but nothing if no message is delayed, since there may be a million timers
-- of dedup keys.
function sweep.append_delayed(q, ids, limit)
  if redis.call("ZCARD", q.available) + claim_pages.locked(q) >= q.messages + 0 then return end
  local from = 0
  repeat
    local members = redis.call("ZRANGE", q.timers, from, from + sweep.page - 1)
    from = from + sweep.page
    for n = 1, #members do
      local letter, id = string.sub(members[n], 1, 1), string.sub(members[n], 2)
      if letter == timers.letters.delay and (not limit or string.sub(id, 3) <= limit) then ids[#ids + 1] = id end
    end
  until #members == 0 or #ids > 0
end

-- Deletion --------------------------------------------------------------------------------------------------------------

-- Returns up to a page of a queue's messages, whatever their state, as entries. Where only locked ones are left it first turns
-- a packed page of a claim into a loose one, which changes nothing in what the store means. Messages that an open transaction
-- has sent are left out: they were never there, and go without a trace.
function sweep.next_page(q)
  local ids = redis.call("ZRANGE", q.available, 0, sweep.page - 1)
  if #ids == 0 then sweep.append_delayed(q, ids) end
  local entries, locked = position.read(q, ids), {}
  if #entries > 0 then return entries end
  sweep.loosen_page(q)
  local from = 0
  repeat
    ids = redis.call("ZRANGE", q.locked, from, from + sweep.page - 1)
    from = from + sweep.page
    entries = position.read(q, ids)
    for n = 1, #entries do
      if not message_state.is_sent(entries[n].state) then locked[#locked + 1] = entries[n] end
    end
  until #ids == 0 or #locked > 0
  return locked
end

-- Turns a packed page of a claim into a loose one, if there is one (claims/loosen).
function sweep.loosen_page(q)
  for _, list in ipairs(claim_pages.lists(q)) do
    local lowest = loosen.lowest(q, list)
    if lowest then return loosen.page(q, list, lowest, message_state.plain_claim) end
  end
end
