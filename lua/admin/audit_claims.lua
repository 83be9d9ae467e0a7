--- require "claims/claim_pages"
--- require "claims/claims"
--- require lazy "core/message_state"
--- require "core/queue"
--- used by admin/audit
-- The messages in packed pages of claims (claims/claim_pages), as the doctor reads them: admin/audit asks for each message that has
-- no lock of its own whether it is in such a page. `q` is the table of admin/audit.
-- Change together with: claims/claim_pages, for another form of pages. tests/client/test_claims.py runs the doctor on claims.
local audit_claims = {}

-- Does this field of q.states belong to a page of a claim?
function audit_claims.is_page(q, field)
  local number, k = claim_pages.parse_field(field)
  local list = claim_pages.list(q, number)
  return list and k >= list.from and k < list.upto
end

-- Returns deadline and state that a message in a packed page would have, as texts; "" and "" if it is in none. `size`: bytes of its
-- record, which are all: no message with a large body is in a packed page. Pages may overlap, so all are tried whose range may hold
-- the id, from the last one on that does not begin behind it.
function audit_claims.lock_of(q, id, size)
  local pages = audit_claims.packed_pages(q)
  local low, high = 1, #pages
  while low <= high do
    local middle = math.floor((low + high) / 2)
    if pages[middle].first <= id then low = middle + 1 else high = middle - 1 end
  end
  while high > 0 and id <= pages[high].top do
    local page = pages[high]
    page.ids_text = page.ids_text or claim_pages.ids_text(q, page.list, page.k)
    if claim_pages.has_id(page.ids_text, id) then
      return claims.score(page.list.number), claim_pages.state(page.list, message_state.plain_claim, size)
    end
    high = high - 1
  end
  return "", ""
end

-- Returns the packed pages of a queue in the order of their first ids, read once in a call, each as a table {list, k, first, last,
-- top}; top: the highest id in this page and those before it.
function audit_claims.packed_pages(q)
  local notes = queue.notes(q)
  if notes.packed_pages then return notes.packed_pages end
  local pages = {}
  for _, list in ipairs(claim_pages.lists(q)) do
    claim_pages.each(q, list, function(k, page)
      if page.packed then pages[#pages + 1] = { list = list, k = k, first = page.first, last = page.last } end
    end)
  end
  table.sort(pages, function(one, other) return one.first < other.first end)
  for n = 1, #pages do
    local last, before = pages[n].last, n > 1 and pages[n - 1].top or ""
    pages[n].top = last > before and last or before
  end
  notes.packed_pages = pages
  return pages
end
