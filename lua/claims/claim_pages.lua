--- require "core/chunked"
--- require "core/context"
--- require "core/queue"
--- require "claims/claims"
--- require lazy "core/locks"
--- require lazy "core/message_state"
--- used by admin/audit, admin/audit_claims, admin/sweep, claim, claim_list, claim_release, claims/claimed_ids, claims/drain,
---   claims/fill, claims/loosen, core/settle, lookup, message_list, overview, queue_info, stats
-- The messages of a claim, page by page, in the order in which they were claimed (docs/decisions/pipelines.md). A page is what
-- one call of claim.lua has locked.
--
-- A page is packed or loose. A packed page replaces the states of its messages, which are locked with kind C (core/message_state)
-- and delivered once: they have no state and no element of q.locked. Its ids ascend. A script that has to change one of them
-- makes the page loose first (claims/loosen): each message gets its state and its element of q.locked, and the page keeps only
-- their order.
--
-- Only this module writes these three texts (tests/contract/test_writers.py); a repair of the doctor changes them, too.
-- Change together with: mqredis/codec/claims.py, which reads the first one for the doctor and for Spark, and the names of the
-- fields with ids (tests/contract/test_stored_texts.py compares); tests/support/claims.py and tests/property/packed.py, which read
-- all three. Tests: tests/property/test_pages.py, test_packed.py.
--
--   field "pages" of q.key     for each claim with pages a page list, "<number> <from> <upto> <packed> <loose> <step> <owner>
--                              <sequence>;". Example: 3 0 2 2000 0 1000 lake 7;
--       number                 of the claim (claims/claims)
--       from, upto             its pages are from to upto - 1
--       packed, loose          how many messages its packed pages and its loose pages hold
--       step                   messages of each page but the last, 0 if they differ
--       owner, sequence        of the claim
--   "b<number>:<k>" in q.states   the k-th page: "<first id> <last id> <messages> <bytes> <packed>", packed: 1 or 0
--   "c<number>:<k>" in q.states   its lookup ids, 16 digits each with nothing between them
--
-- In claims/ `list` is a page list, a table {number, from, upto, packed_count, loose_count, step, owner, seq}, of which number,
-- owner and seq are texts. `page` is a table {first, last, count, bytes, packed}. k counts pages from 0. A list only loses pages
-- once its claim is committed or released; no page is added to it any more then, since the next claim of the owner has another
-- number.
--
-- pages_per_read: pages that one command reads
local claim_pages = { pages_per_read = 256 }

-- The stored texts ------------------------------------------------------------------------------------------------------

-- Returns all page lists of a queue, from the text of the field.
function claim_pages.parse_lists(text)
  local lists = {}
  for number, from, upto, packed, loose, step, owner, seq in
    string.gmatch(text, "(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%d+);") do
    lists[#lists + 1] = { number = number, from = tonumber(from), upto = tonumber(upto), step = tonumber(step),
      packed_count = tonumber(packed), loose_count = tonumber(loose), owner = owner, seq = seq }
  end
  return lists
end

-- Returns the text of a page list.
function claim_pages.format_list(list)
  return string.format("%s %d %d %d %d %d %s %s;", list.number, list.from, list.upto, list.packed_count,
    list.loose_count, list.step, list.owner, list.seq)
end

-- Returns a page from its text. A page whose text is lost holds no message.
function claim_pages.parse_page(text)
  local first, last, count, bytes, packed = string.match(text or "", "^(%x+) (%x+) (%d+) (%d+) ([01])$")
  return { first = first or "", last = last or "", count = tonumber(count or 0), bytes = tonumber(bytes or 0),
    packed = packed == "1" }
end

-- Returns the text of a page.
function claim_pages.format_page(page)
  return string.format("%s %s %d %d %d", page.first, page.last, page.count, page.bytes, page.packed and 1 or 0)
end

-- Returns the field of q.states with the text of the k-th page.
function claim_pages.page_field(list, k)
  return string.format("b%s:%d", list.number, k)
end

-- Returns the field of q.states with the ids of the k-th page.
function claim_pages.ids_field(list, k)
  return string.format("c%s:%d", list.number, k)
end

-- Returns the number of the claim, as text, and k of a field with the text of a page or its ids; nil for any other field.
function claim_pages.parse_field(field)
  local number, k = string.match(field, "^[bc](%d+):(%d+)$")
  return number, tonumber(k)
end

-- Returns the ids of a page as one text; "" if it is lost.
function claim_pages.ids_text(q, list, k)
  return redis.call("HGET", q.states, claim_pages.ids_field(list, k)) or ""
end

-- Does a packed page, whose ids ascend, hold the id? `text`: its ids. A binary search.
function claim_pages.has_id(text, id)
  local low, high, sub = 1, #text / 16, string.sub
  while low <= high do
    local middle = math.floor((low + high) / 2)
    local found = sub(text, middle * 16 - 15, middle * 16)
    if found == id then return true end
    if found < id then low = middle + 1 else high = middle - 1 end
  end
  return false
end

-- Page lists ------------------------------------------------------------------------------------------------------------

-- Returns the page lists of this queue, read once in a call: here or by claims.open.
function claim_pages.lists(q)
  local notes = queue.notes(q)
  if not notes.page_lists then
    notes.page_lists = claim_pages.parse_lists(notes.pages or redis.call("HGET", q.key, "pages") or "")
  end
  return notes.page_lists
end

-- Returns the page list of the claim with this number; nil if it has taken nothing.
function claim_pages.list(q, number)
  local lists = claim_pages.lists(q)
  for n = 1, #lists do
    if lists[n].number == number then return lists[n] end
  end
end

-- Writes the page lists, without those that have no page left.
function claim_pages.save(q)
  local kept, texts = {}, {}
  for _, list in ipairs(claim_pages.lists(q)) do
    if list.from < list.upto then
      kept[#kept + 1] = list
      texts[#kept] = claim_pages.format_list(list)
    end
  end
  queue.notes(q).page_lists = kept
  if kept[1] then
    redis.call("HSET", q.key, "pages", table.concat(texts))
  else
    redis.call("HDEL", q.key, "pages")
  end
  context.mark_changed()
end

-- Returns how many messages are in packed pages, and how many fields of q.states are no states.
function claim_pages.packed(q)
  local packed, fields = 0, 0
  for _, list in ipairs(claim_pages.lists(q)) do
    packed, fields = packed + list.packed_count, fields + 2 * (list.upto - list.from)
  end
  return packed, fields
end

-- Returns how many messages of this queue are locked.
function claim_pages.locked(q)
  local count = redis.call("ZCARD", q.locked) + claim_pages.packed(q)
  if q.locks == "" then return count end
  return count + locks.count(q)
end

-- Returns how many messages are locked under the number of a claim. After a release there are some until all are given back.
function claim_pages.held(q, number)
  local list, score = claim_pages.list(q, number), claims.score(number)
  return (list and list.packed_count or 0) + redis.call("ZCOUNT", q.locked, score, score)
end

-- Adding and reading pages ----------------------------------------------------------------------------------------------

-- Adds a page of these ids to a claim, which the caller locks. `bytes`: of the messages; `packed`: is it a packed page?
function claim_pages.add(q, claim, ids, bytes, packed)
  local list, count = claim_pages.list(q, claim.number), #ids
  if not list then
    list = { number = claim.number, from = 0, upto = 0, packed_count = 0, loose_count = 0, step = count,
      owner = claim.owner, seq = string.format("%d", claim.seq) }
    local lists = claim_pages.lists(q)
    lists[#lists + 1] = list
  end
  local page, k = { first = ids[1], last = ids[count], count = count, bytes = bytes, packed = packed }, list.upto
  redis.call("HSET", q.states, claim_pages.ids_field(list, k), table.concat(ids),
    claim_pages.page_field(list, k), claim_pages.format_page(page))
  -- No page was removed yet (see above), so there are `upto` of them.
  local all_were_full = list.packed_count + list.loose_count == list.upto * list.step
  if not all_were_full or count > list.step then list.step = 0 end -- pages differ in length
  list.upto = k + 1
  claim_pages.count(list, packed and count or 0, packed and 0 or count)
  claim_pages.save(q)
end

-- Counts messages of packed and of loose pages of a list in (positive) or out (negative).
function claim_pages.count(list, packed, loose)
  list.packed_count = list.packed_count + packed
  list.loose_count = list.loose_count + loose
end

-- Calls `visit(k, page)` for each page of a list, until that returns true. Returns true in this case. Reads no ids.
function claim_pages.each(q, list, visit)
  for from = list.from, list.upto - 1, claim_pages.pages_per_read do
    local fields = {}
    for k = from, math.min(from + claim_pages.pages_per_read, list.upto) - 1 do
      fields[#fields + 1] = claim_pages.page_field(list, k)
    end
    local texts = redis.call("HMGET", q.states, unpack(fields))
    for n = 1, #fields do
      if visit(from + n - 1, claim_pages.parse_page(texts[n])) then return true end
    end
  end
end

-- Packed pages ----------------------------------------------------------------------------------------------------------

-- Returns the page list of the claim in one of whose packed pages this message is; nil if it is in none. For messages that
-- have a record and no state, and are not available.
function claim_pages.find(q, id)
  for _, list in ipairs(claim_pages.lists(q)) do
    local function holds(k, page)
      local within = page.packed and page.first <= id and id <= page.last
      return within and claim_pages.has_id(claim_pages.ids_text(q, list, k), id)
    end
    if list.packed_count > 0 and claim_pages.each(q, list, holds) then return list end
  end
end

-- Returns the state that a message of a packed page would have.
function claim_pages.state(list, kind, size)
  return message_state.first(size, kind, list.owner, list.seq)
end

-- Notes that the k-th page, which was packed, is loose.
function claim_pages.set_loose(q, list, k)
  local field = claim_pages.page_field(list, k)
  local page = claim_pages.parse_page(redis.call("HGET", q.states, field))
  page.packed = false
  redis.call("HSET", q.states, field, claim_pages.format_page(page))
  claim_pages.count(list, -page.count, page.count)
  claim_pages.save(q)
end

-- Removing pages --------------------------------------------------------------------------------------------------------

-- Removes the texts of the first page of a list, which is packed and has lost its messages. `page`: what claim_pages.parse_page
-- returns for it.
function claim_pages.drop_first(q, list, page)
  redis.call("HDEL", q.states, claim_pages.ids_field(list, list.from), claim_pages.page_field(list, list.from))
  list.from = list.from + 1
  claim_pages.count(list, -page.count, 0) -- what it has counted; a page whose ids are lost had no messages
  claim_pages.save(q)
end

-- Removes the texts of the loose pages that a list begins with. For claims that give up their messages, so that the order of these
-- is of no use any more; the messages are left alone.
function claim_pages.trim(q, list)
  local fields = {}
  claim_pages.each(q, list, function(k, page)
    if page.packed then return true end
    fields[#fields + 1], fields[#fields + 2] = claim_pages.ids_field(list, k), claim_pages.page_field(list, k)
    claim_pages.count(list, 0, -page.count)
  end)
  if #fields == 0 then return end
  chunked.run("HDEL", q.states, fields)
  list.from = list.from + #fields / 2
  claim_pages.save(q)
end
