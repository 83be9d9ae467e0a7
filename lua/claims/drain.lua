--- require "core/context"
--- require lazy "core/message_state"
--- require "claims/claims"
--- require "claims/claim_pages"
--- require "claims/loosen"
--- require "core/chunked"
--- require lazy "core/locks"
--- require "core/position"
--- require "core/removal"
--- used by claim_commit, claim_release, queue_delete
-- Removes the messages of a claim that is committed: that whose number is claim.draining (claims/claims). They count as received
-- from the commit on, but a call of claim_commit.lua, claim_release.lua or queue_delete.lua removes no more than a page of them.
-- claims/claim_pages says what page lists, and packed and loose pages, are.
-- Change together with: core/removal, for another effect of a receive: messages of packed pages, and those whose state has the kind
-- plain_claim, leave without removal.delete. Tests: tests/client/test_claims.py, tests/property/test_packed.py.
local drain = {}

-- Removes a page. Returns how many messages; nil if context.missing names queues that this takes: then all messages are still
-- there, though packed pages may have become loose. Sets claim.draining to nil once those were the last ones; the caller then calls
-- claims.save, unless it deletes the queue.
function drain.page(q, claim)
  local list = claim_pages.list(q, claim.draining)
  local count, is_last
  if list and list.packed_count > 0 and not q.options.journaling then -- a journal wants copies of records
    count = drain.packed_page(q, list)
    local score = claims.score(claim.draining)
    is_last = list.from >= list.upto and redis.call("ZCOUNT", q.locked, score, score) == 0
  else
    count, is_last = drain.loose_messages(q, claim.draining)
  end
  if is_last then
    claim.draining = nil
    -- The texts of loose pages, whose messages are gone. They go at once at the end, unless drain.packed_page has to pass them.
    if list then claim_pages.trim(q, list) end
  end
  return count
end

-- Packed pages ----------------------------------------------------------------------------------------------------------

-- Removes the messages of the first packed page of a list, which ask for nothing when they end, and the texts of this page and of
-- all loose pages before it, whose messages stay. Returns how many messages.
function drain.packed_page(q, list)
  local page, ids_text = drain.first_page(q, list)
  if not page.packed then
    claim_pages.trim(q, list)
    page, ids_text = drain.first_page(q, list)
  end
  local ids = locks.ids(ids_text)
  if ids[1] then removal.delete_locked(q, ids, page.bytes, nil) end
  claim_pages.drop_first(q, list, page)
  return #ids
end

-- Returns the first page of a list, and the text of its ids.
function drain.first_page(q, list)
  local texts = redis.call("HMGET", q.states, claim_pages.ids_field(list, list.from),
    claim_pages.page_field(list, list.from))
  return claim_pages.parse_page(texts[2]), texts[1] or ""
end

-- Messages with their own states ----------------------------------------------------------------------------------------

-- Removes messages of the claim with this number: as many as claims.page_without_records, of which no more than
-- claims.page_with_records need a look at their records. Packed pages are made loose for that, which changes nothing in what the
-- store means. Returns how many, and whether these were the last ones; nil if context.missing names queues that this takes.
function drain.loose_messages(q, number)
  local journal = q.options.journaling
  local most = journal and claims.page_with_records or claims.page_without_records
  local ids = loosen.lowest_ids(q, number, most)
  if #ids == 0 then return 0, true end
  -- plain: ids of messages whose end needs no look at their records; others: all other ids.
  local plain, others, bytes = { nil }, { nil }, 0
  local states, sizes = chunked.read(q.states, ids), {} -- sizes: by text of a state, since most texts are equal
  for n = 1, #ids do
    local state_text = states[n]
    local size = not journal and state_text and (sizes[state_text] or message_state.plain_claim_size(state_text))
    if size then
      sizes[state_text] = size
      plain[#plain + 1] = ids[n]
      bytes = bytes + size
    else
      others[#others + 1] = ids[n]
      if #others == claims.page_with_records then break end
    end
  end
  if not drain.entries(q, others) then return end
  if plain[1] then removal.delete_locked(q, plain, bytes, plain) end
  local count = #plain + #others
  return count, count == #ids and #ids < most
end

-- Removes messages that need a look at their records. Those that were purged before the commit leave as purged. Returns false,
-- and has done nothing, if context.missing names queues that this takes.
function drain.entries(q, ids)
  local entries, received, purged = position.read(q, ids), {}, {}
  for n = 1, #entries do
    local list = message_state.is_purged(entries[n].state) and purged or received
    list[#list + 1] = entries[n]
  end
  removal.plan(q, received, "receive")
  removal.plan(q, purged, "queue_purged")
  if context.missing then return false end
  removal.delete(q, received, "receive")
  removal.delete(q, purged, "queue_purged")
  return true
end
