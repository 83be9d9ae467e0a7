--- require "claims/claim_pages"
--- require "claims/claims"
--- require lazy "core/locks"
--- require lazy "core/message_state"
--- require "core/store"
--- used by admin/sweep, claim_release, claims/drain
-- Turns packed pages of claims into loose ones (claims/claim_pages), for scripts that have to change one of their messages: each
-- message gets its state and its element of q.locked. That changes nothing in what the store means, so a script may do it before
-- it refuses a call. Tests: tests/property/test_packed.py, which compares packed claims with loose ones.
local loosen = {}

-- Returns k of the packed page with the lowest ids; nil if none is packed, or if no id of one is below `below`, if that is given.
-- `list`: nil if no page of the claim is left.
function loosen.lowest(q, list, below)
  local lowest
  if list and list.packed_count > 0 then
    claim_pages.each(q, list, function(k, page)
      if page.packed and (not below or page.first < below) then lowest, below = k, page.first end
    end)
  end
  return lowest
end

-- Turns the k-th page, which is packed, into a loose one. `kind`: that of the states, message_state.plain_claim or, if the queue is
-- being purged, message_state.purged_claim.
function loosen.page(q, list, k, kind)
  local states = { nil, nil }
  local ids = locks.ids(claim_pages.ids_text(q, list, k))
  for n = 1, #ids do
    states[n * 2 - 1], states[n * 2] = ids[n], claim_pages.state(list, kind, redis.call("HSTRLEN", q.records, ids[n]))
  end
  if ids[1] then store.lock_without_lease(q, ids, states, claims.score(list.number)) end
  claim_pages.set_loose(q, list, k)
end

-- Turns all packed pages of a list into loose ones. `kind`: of loosen.page.
function loosen.all(q, list, kind)
  local packed = {}
  claim_pages.each(q, list, function(k, page)
    if page.packed then packed[#packed + 1] = k end
  end)
  for n = 1, #packed do loosen.page(q, list, packed[n], kind) end
end

-- Returns up to `count` of the lowest ids that the claim with this number holds. Packed pages with such ids are loose afterwards,
-- so that each of the messages has its own state.
function loosen.lowest_ids(q, number, count)
  local list, score = claim_pages.list(q, number), claims.score(number)
  while true do
    local ids = redis.call("ZRANGEBYSCORE", q.locked, score, score, "LIMIT", 0, count)
    local lower = loosen.lowest(q, list, ids[count])
    if not lower then return ids end
    loosen.page(q, list, lower, message_state.plain_claim)
  end
end
