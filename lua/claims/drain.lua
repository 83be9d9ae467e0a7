--- require "core/context"
--- require "core/message_state"
--- require "claims/claim"
--- require "claims/claim_pages"
--- require "core/chunked"
--- require "core/position"
--- require "core/queue"
--- used by claim_commit, claim_release, queue_delete
-- Removes the messages of a claim that is committed, c.draining (claims/claim). They count as received from the commit on,
-- but a call of claim_commit.lua, claim_release.lua or queue_delete.lua removes no more than a page of them.
local drain = {}

-- Removes a page. Returns how many messages; c.draining is nil once those were the last ones. Returns nil, and has done
-- nothing, if context.missing names queues that this takes.
function drain.page(q, c)
  local list = claim_pages.list(q, c.draining)
  local count, last
  if list and list.packed > 0 and not q.options.journaling then
    count = claim_pages.receive(q, list)
    local score = claim.score(c.draining)
    last = (list.packed == 0 or list.from >= list.upto) and redis.call("ZCOUNT", q.locked, score, score) == 0
  else
    count, last = drain.loose(q, c.draining)
  end
  if last then
    c.draining = nil
    if list then claim_pages.trim(q, list) end
  end
  return count
end

-- Removes up to claim.run messages that have their own states, of which no more than claim.page need a look at their records.
-- Returns how many, and whether these were the last ones; nil if context.missing names queues that this takes.
function drain.loose(q, number)
  local journal = q.options.journaling
  local most = journal and claim.page or claim.run
  local ids = claim_pages.front(q, number, most)
  if #ids == 0 then return 0, true end
  -- plain: ids of messages whose end needs no look at their records. sizes: bytes by text of a state; most texts are equal.
  local states, sizes, plain, others, bytes = chunked.read(q.states, ids), {}, { nil }, { nil }, 0
  for n = 1, #ids do
    local state_text = states[n]
    local size = not journal and state_text and (sizes[state_text] or message_state.plain_claim_size(state_text))
    if size then
      sizes[state_text] = size
      plain[#plain + 1] = ids[n]
      bytes = bytes + size
    else
      others[#others + 1] = ids[n]
      if #others == claim.page then break end
    end
  end
  if not drain.entries(q, others) then return end
  if plain[1] then position.delete_locked(q, plain, bytes) end
  local count = #plain + #others
  return count, count == #ids and #ids < most
end

-- Removes messages that need a look at their records. Those that were purged before the commit leave as purged. Returns false,
-- and has done nothing, if context.missing names queues that this takes.
function drain.entries(q, ids)
  local entries, received, purged = position.read(q, ids), {}, {}
  for n = 1, #entries do
    local to = message_state.is_purged(entries[n].state) and purged or received
    to[#to + 1] = entries[n]
  end
  position.may_leave(q, received, "receive")
  position.may_leave(q, purged, "queue_purged")
  if context.missing then return false end
  if received[1] then position.delete(q, received, "receive") end
  if purged[1] then position.delete(q, purged, "queue_purged") end
  return true
end
