--- require "core/context"
--- require "core/queue"
--- require "claims/claim"
--- require "core/message_state"
--- require "core/store"
-- What a claim holds, page by page, in the order in which it is read (docs/decisions/0035).
--
--   q.s  "c<number>:<k>"  ids of the k-th page of the claim with this number, 16 digits each
--        "b<number>:<k>"  first id, last id, how many, bytes, "1" packed or "0" loose
--   q.q  "pages"          a book for each claim that has pages, "number from upto packed loose step owner sequence" and
--                         a ";": its pages are from..upto-1; so many messages are in those that are packed, and in the
--                         others; step: messages of each page but the last, 0 if they differ
--
-- Packed: the page says all that is to be said of its messages, which are Locked with kind C like any other, delivered
-- once. They have no state and are not in q.l; their ids ascend. Whoever wants more than to know that (claim_pages.find)
-- unpacks the page first. Loose: each has its state and its element of q.l, and the page keeps only their order.
-- A claim of an older store has no pages, and all its messages are like loose ones.
local claim_pages = { some = 256 }

-- The books of this queue; read once in a call.
function claim_pages.books(q)
  if q.books then return q.books end
  local text = q.pages
  if text == nil then text = redis.call("HGET", q.q, "pages") end
  q.books = {}
  for number, from, upto, packed, loose, step, owner, seq in
    string.gmatch(text or "", "(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%d+);") do
    q.books[#q.books + 1] = { number = number, from = tonumber(from), upto = tonumber(upto),
      packed = tonumber(packed), loose = tonumber(loose), step = tonumber(step), owner = owner, seq = seq }
  end
  return q.books
end

-- The book of the claim with this number; nothing if it has no pages.
function claim_pages.book(q, number)
  local books = claim_pages.books(q)
  for n = 1, #books do
    if books[n].number == number then return books[n] end
  end
end

-- Writes the books down, without those that have no page left.
function claim_pages.save(q)
  local kept, texts = {}, {}
  for _, b in ipairs(claim_pages.books(q)) do
    if b.from < b.upto then
      kept[#kept + 1] = b
      texts[#kept] = string.format("%s %d %d %d %d %d %s %s;", b.number, b.from, b.upto, b.packed, b.loose, b.step,
        b.owner, b.seq)
    end
  end
  q.books = kept
  if #kept > 0 then
    redis.call("HSET", q.q, "pages", table.concat(texts))
  else
    redis.call("HDEL", q.q, "pages")
  end
  context.mark_changed()
end

-- How many messages are packed, and how many fields of q.s are no states.
function claim_pages.packed(q)
  local packed, fields = 0, 0
  for _, b in ipairs(claim_pages.books(q)) do
    packed, fields = packed + b.packed, fields + 2 * (b.upto - b.from)
  end
  return packed, fields
end

-- How many messages of this queue are locked.
function claim_pages.locked(q)
  return redis.call("ZCARD", q.l) + claim_pages.packed(q)
end

-- Up to which sequence this owner has committed its claims.
function claim_pages.committed(q, owner)
  local c = claim.open(q, owner)
  return c and c.committed or -1
end

-- Are there messages under this claim's number? Of a released claim until the release has come to its end.
function claim_pages.holds(q, c)
  local book, score = claim_pages.book(q, c.number), claim.score(c.number)
  return book and book.packed > 0 or redis.call("ZCOUNT", q.l, score, score) > 0
end

-- Does what this claim takes next stand in a page? Not if it has taken something before it had pages.
function claim_pages.fits(q, c)
  return c.count == 0 or claim_pages.book(q, c.number) ~= nil
end

-- Another page of a claim: the first `count` of these ids.
function claim_pages.add(q, c, ids, count, bytes, packed)
  local book = claim_pages.book(q, c.number)
  if not book then
    book = { number = c.number, from = 0, upto = 0, packed = 0, loose = 0, step = count, owner = c.owner,
      seq = string.format("%d", c.seq) }
    q.books[#q.books + 1] = book
  end
  local place = claim_pages.place(book, book.upto)
  redis.call("HSET", q.s, "c" .. place, table.concat(ids, "", 1, count),
    "b" .. place, string.format("%s %s %d %d %d", ids[1], ids[count], count, bytes, packed and 1 or 0))
  if book.packed + book.loose ~= book.upto * book.step or count > book.step then book.step = 0 end
  book.upto = book.upto + 1
  claim_pages.shift(book, packed and count or 0, packed and 0 or count)
  claim_pages.save(q)
end

function claim_pages.shift(book, packed, loose)
  book.packed, book.loose = book.packed + packed, book.loose + loose
end

-- Calls back with what is said of each page of a book, from the first one on, until that answers true: its number, first
-- and last id, count, whether it is packed. A page that is lost is told as one of no message.
function claim_pages.each(q, book, tell)
  for from = book.from, book.upto - 1, claim_pages.some do
    local fields = {}
    for k = from, math.min(from + claim_pages.some, book.upto) - 1 do
      fields[#fields + 1] = "b" .. claim_pages.place(book, k)
    end
    local texts = redis.call("HMGET", q.s, unpack(fields))
    for n = 1, #fields do
      local first, last, count, packed = string.match(texts[n] or "", "^(%x+) (%x+) (%d+) %d+ ([01])$")
      if tell(from + n - 1, first or "", last or "", tonumber(count or 0), packed == "1") then return true end
    end
  end
end

-- What the fields of a page are called behind their first letter.
function claim_pages.place(book, k)
  return string.format("%s:%d", book.number, k)
end

-- The ids of a page as one text, "" if it is lost.
function claim_pages.text(q, book, k)
  return redis.call("HGET", q.s, "c" .. claim_pages.place(book, k)) or ""
end

function claim_pages.split(text)
  local ids, sub = { nil }, string.sub
  if not text then return ids end
  for n = 1, #text / 16 do ids[n] = sub(text, n * 16 - 15, n * 16) end
  return ids
end

-- A part of a claim as texts of ids; nothing if anything of the claim is missing.
function claim_pages.read(q, c, offset, count)
  local book, score = claim_pages.book(q, c.number), claim.score(c.number)
  local held = redis.call("ZCOUNT", q.l, score, score)
  if not book then
    if held ~= c.count then return end
    local base = redis.call("ZCOUNT", q.l, "-inf", "(" .. score) + offset
    return count > 0 and { table.concat(redis.call("ZRANGE", q.l, base, base + count - 1)) } or {}
  end
  if book.packed + book.loose ~= c.count or held ~= book.loose then return end
  local stop, parts = offset + count, {}
  local function take(k, before, size)
    local from, upto = math.max(offset - before, 0), math.min(stop - before, size)
    if from >= upto then return end
    local text = claim_pages.text(q, book, k)
    if #text ~= size * 16 then return true end
    -- A text of all is not copied: a script computes a hash of each byte of each of its texts.
    parts[#parts + 1] = upto - from == size and text or string.sub(text, from * 16 + 1, upto * 16)
  end
  local lost, total = false, 0
  if book.step > 0 then
    for k = math.floor(offset / book.step), math.ceil(stop / book.step) - 1 do
      lost = lost or take(k, k * book.step, math.min(book.step, c.count - k * book.step))
    end
  else
    lost = claim_pages.each(q, book, function(k, _, _, size)
      local gone = take(k, total, size)
      total = total + size
      return gone
    end) or total ~= c.count
  end
  return not lost and parts or nil
end

-- Does this text of ascending ids hold the id?
function claim_pages.has(text, lid)
  local low, high, sub = 1, #text / 16, string.sub
  while low <= high do
    local middle = math.floor((low + high) / 2)
    local found = sub(text, middle * 16 - 15, middle * 16)
    if found == lid then return true end
    if found < lid then low = middle + 1 else high = middle - 1 end
  end
  return false
end

-- The book of the packed page that this message is in; nothing if it is in none. To be asked about one that has a record
-- and no state, and is not available.
function claim_pages.find(q, lid)
  for _, book in ipairs(claim_pages.books(q)) do
    if book.packed > 0 and claim_pages.each(q, book, function(k, first, last, _, packed)
      return packed and first <= lid and lid <= last and claim_pages.has(claim_pages.text(q, book, k), lid)
    end) then
      return book
    end
  end
end

-- The state of a message of a packed page.
function claim_pages.told(book, kind, size)
  return message_state.first(size, kind, book.owner, book.seq)
end

-- The number of the packed page with the lowest ids; nothing if none is packed, or if these are not before `below`.
function claim_pages.lowest(q, book, below)
  local lowest
  if book and book.packed > 0 then
    claim_pages.each(q, book, function(k, first, _, _, packed)
      if packed and (not below or first < below) then lowest, below = k, first end
    end)
  end
  return lowest
end

-- A packed page of a book becomes a loose one: for all scripts its messages are what they were. Kind "CP" says besides
-- that the queue was purged.
function claim_pages.unpack(q, book, k, kind)
  local place, states = claim_pages.place(book, k), { nil, nil }
  local ids = claim_pages.split(claim_pages.text(q, book, k))
  for n = 1, #ids do
    states[n * 2 - 1], states[n * 2] = ids[n], claim_pages.told(book, kind, redis.call("HSTRLEN", q.m, ids[n]))
  end
  if ids[1] then store.lock_without_lease(q, ids, states, claim.score(book.number)) end
  local said, count = string.match(redis.call("HGET", q.s, "b" .. place), "^(%x+ %x+ (%d+) %d+)")
  redis.call("HSET", q.s, "b" .. place, said .. " 0")
  claim_pages.shift(book, -count, count)
  claim_pages.save(q)
end

-- All packed pages of a book.
function claim_pages.unpack_all(q, book, kind)
  local packed = {}
  claim_pages.each(q, book, function(k, _, _, _, is)
    if is then packed[#packed + 1] = k end
  end)
  for n = 1, #packed do claim_pages.unpack(q, book, packed[n], kind) end
end

-- The first ids of what the claim with this number holds, in the order of the ids and none of them packed.
function claim_pages.front(q, number, count)
  local book, score = claim_pages.book(q, number), claim.score(number)
  while true do
    local ids = redis.call("ZRANGEBYSCORE", q.l, score, score, "LIMIT", 0, count)
    local lower = claim_pages.lowest(q, book, ids[count])
    if not lower then return ids end
    claim_pages.unpack(q, book, lower, "CN")
  end
end

-- The loose pages that a book begins with are forgotten: nobody asks for their order any more.
function claim_pages.trim(q, book)
  local fields = {}
  claim_pages.each(q, book, function(k, _, _, _, packed)
    if packed then return true end
    local place = claim_pages.place(book, k)
    fields[#fields + 1], fields[#fields + 2] = "c" .. place, "b" .. place
  end)
  if #fields == 0 then return end
  for n = 1, #fields, 1000 do redis.call("HDEL", q.s, unpack(fields, n, math.min(n + 999, #fields))) end
  book.from = book.from + #fields / 2
  claim_pages.save(q)
end

-- Receives the first packed page of a book, whose messages leave no trace. Returns how many.
function claim_pages.receive(q, book)
  local place = claim_pages.place(book, book.from)
  local page = redis.call("HMGET", q.s, "c" .. place, "b" .. place)
  if not string.find(page[2] or "", " 1$") then
    claim_pages.trim(q, book)
    place = claim_pages.place(book, book.from)
    page = redis.call("HMGET", q.s, "c" .. place, "b" .. place)
  end
  local ids, count, bytes = claim_pages.split(page[1]), string.match(page[2] or "", "(%d+) (%d+) 1$")
  if ids[1] then
    store.count(q, -#ids, -tonumber(bytes))
    store.remove(q, {}, {}, {}, ids)
  end
  redis.call("HDEL", q.s, "c" .. place, "b" .. place)
  book.from = book.from + 1
  claim_pages.shift(book, -tonumber(count or 0), 0)
  claim_pages.save(q)
  return #ids
end
