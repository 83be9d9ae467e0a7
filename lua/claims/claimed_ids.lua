--- require "claims/claim_pages"
--- require "claims/claims"
--- used by claim_read
-- Reads the lookup ids of a claim, from its pages (claims/claim_pages), in the order in which they were claimed. claim_read.lua has
-- compared owner, lineage and sequence before. Tests: tests/property/test_pages.py.
local claimed_ids = {}

-- Returns up to `count` ids of a claim from `offset` on, 0 for the first, as a list of texts that hold one or more ids each, 16
-- digits for one; nil if a page, or a message, of the claim is missing.
function claimed_ids.read(q, claim, offset, count)
  local list, score = claim_pages.list(q, claim.number), claims.score(claim.number)
  if not list then return claim.count == 0 and {} or nil end
  if list.packed_count + list.loose_count ~= claim.count then return end -- a page has gone
  if redis.call("ZCOUNT", q.locked, score, score) ~= list.loose_count then return end -- the lock of a message has gone
  local texts, stop = {}, offset + count

  -- Appends those ids of the k-th page that are wanted. `before`: how many ids the pages before it hold; `size`: how many it
  -- holds. Returns false if its text is lost.
  local function append(k, before, size)
    local first, last = math.max(offset - before, 0) + 1, math.min(stop - before, size)
    if first > last then return true end
    local text = claim_pages.ids_text(q, list, k)
    if #text ~= size * 16 then return false end
    -- A text of all is not copied: a script computes a hash of each byte of each of its texts.
    texts[#texts + 1] = first == 1 and last == size and text or string.sub(text, first * 16 - 15, last * 16)
    return true
  end

  if list.step > 0 then -- all pages but the last are equally long: only those that are wanted are read
    for k = math.floor(offset / list.step), math.ceil(stop / list.step) - 1 do
      local before = k * list.step
      if not append(k, before, math.min(list.step, claim.count - before)) then return end
    end
    return texts
  end
  local before, is_lost = 0, nil
  claim_pages.each(q, list, function(k, page)
    is_lost = not append(k, before, page.count)
    before = before + page.count
    return is_lost
  end)
  if is_lost or before ~= claim.count then return end
  return texts
end
