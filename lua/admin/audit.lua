--- require "core/context"
--- require "matching/index"
--- require "core/queue"
--- require "core/record"
--- require "claims/claim"
--- require "claims/claim_pages"
--- used by audit
-- Reads every key of the manager and of the queues in KEYS for the doctor, page by page. Each row describes one item at one
-- moment, so a page is consistent. Two pages are consistent with each other if the history number is the same.
--
-- Rows, each: letter, number of elements, key, more elements.
--   K key type ttl_ms        every key that exists          H key field value      meta, queues, txs, q
--   Z key member score       handles, idle, w
--   M key id size head large available deadline state expiry delay visible    a record; "" for a missing value. For a
--                            message in a packed page of a claim, deadline and state are computed
--   B key id size            a large body without a record of its own
--   X key member            an element missing from the index
--   T key member score       timers of policies: those of features/retry, "k"key a dedup key
--   S key member score       an element of a or i whose score is not 0: reads rely on equal scores
--   O key member value       an element of a, l, s, t, i whose message has no record (i: or is not available)
local audit = { order = "qalmstwi", types = { meta = "hash", txs = "hash", queues = "hash",
  handles = "zset", idle = "zset", q = "hash", a = "zset", l = "zset", m = "hash", s = "hash", t = "zset", w = "zset",
  i = "zset" } }

-- The text after the last colon of a key.
function audit.part(key) return string.match(key, "([^:]*)$") end

function audit.row(out, letter, ...)
  local row = { ... }
  out[#out + 1] = letter
  out[#out + 1] = #row
  for n = 1, #row do out[#out + 1] = row[n] end
end

function audit.kind(key)
  local kind = redis.call("TYPE", key)
  return type(kind) == "table" and kind.ok or kind
end

function audit.keys(out)
  for n = 1, #KEYS do
    local kind = audit.kind(KEYS[n])
    if kind ~= "none" then audit.row(out, "K", KEYS[n], kind, redis.call("PTTL", KEYS[n])) end
  end
end

-- Has the key, or have all eight keys of its queue, the expected type? A key may be missing.
function audit.has_valid_types(key, base)
  if not string.find(key, ":q:", 1, true) then return audit.kind(key) == audit.types[audit.part(key)] end
  for n = base, base + 7 do
    local kind = audit.kind(KEYS[n])
    if kind ~= "none" and kind ~= audit.types[audit.part(KEYS[n])] then return false end
  end
  return audit.types[audit.part(key)] ~= nil
end

-- Reads one page from `cursor`. Returns the next cursor, "0" at the end, and the number of elements read.
function audit.page(out, at, cursor, budget)
  local key, part = KEYS[at], audit.part(KEYS[at])
  local kind, base = audit.kind(key), at - (string.find(audit.order, part, 1, true) or 1) + 1
  if kind == "none" or not audit.has_valid_types(key, base) then return "0", 0 end
  if string.find(key, ":q:", 1, true) then audit.expand_locks(base) end
  if part == "m" then return audit.records(out, base, cursor, budget) end
  local found = redis.call(kind == "hash" and "HSCAN" or "ZSCAN", key, cursor, "COUNT", budget)
  local items = found[2]
  for n = 1, #items, 2 do
    local name, value = items[n], items[n + 1]
    if part == "a" or part == "l" or part == "s" or part == "t" or part == "i" then
      audit.element(out, at, base, part, name, value)
    elseif kind == "zset" then
      audit.row(out, "Z", key, name, value)
    else
      audit.row(out, "H", key, name,
        part == "meta" and string.find(name, "^[%dl]") and string.sub(value, 1, 96) or value)
    end
  end
  return found[1], #items / 2
end

-- Expands packed locks into one entry for each message. This is a write, and they stay so (core/locks).
function audit.expand_locks(base)
  queue.open((base - 6) / 8 + 1, 5)
end

-- Reports an element that refers to a message, if it is invalid.
function audit.element(out, at, base, part, member, value)
  local valid
  if part == "t" and string.find(member, "^[bswpk]") then
    audit.row(out, "T", KEYS[at], member, value)
    valid = true
  elseif part == "i" then
    valid = audit.indexed(base, member)
  elseif part == "s" and string.find(member, "^[bc]") then
    valid = audit.paged(base, member)
  else
    local lid = part == "t" and string.sub(member, 2) or member
    valid = redis.call("HEXISTS", KEYS[base + 3], lid) == 1
  end
  if not valid then return audit.row(out, "O", KEYS[at], member, value) end
  if (part == "a" or part == "i" and string.find(member, "^[mcgnv]")) and tonumber(value) ~= 0 then
    audit.row(out, "S", KEYS[at], member, value)
  end
end

-- The queue at `base` in the form that claims/claim_pages takes, and its packed pages in the order of their first ids. `top`:
-- the highest id in this page and those before it.
function audit.packed_pages(base)
  context.packed_pages = context.packed_pages or {}
  local pages = context.packed_pages[base]
  if pages then return pages end
  pages = { q = { key = KEYS[base], records = KEYS[base + 3], states = KEYS[base + 4] } }
  for _, list in ipairs(claim_pages.lists(pages.q)) do
    claim_pages.each(pages.q, list, function(k, page)
      if page.packed then pages[#pages + 1] = { list = list, k = k, first = page.first, last = page.last } end
    end)
  end
  table.sort(pages, function(one, other) return one.first < other.first end)
  for n = 1, #pages do
    local last, before = pages[n].last, n > 1 and pages[n - 1].top or ""
    pages[n].top = last > before and last or before
  end
  context.packed_pages[base] = pages
  return pages
end

-- Does this field belong to a page of a claim?
function audit.paged(base, field)
  local number, k = string.match(field, "^.(%d+):(%d+)$")
  local list = number and claim_pages.list(audit.packed_pages(base).q, number)
  return list and tonumber(k) >= list.from and tonumber(k) < list.upto
end

-- Deadline and state of a message in a packed page, "" if it is in none.
function audit.packed(base, lid, size)
  local pages = audit.packed_pages(base)
  local low, high = 1, #pages
  while low <= high do
    local middle = math.floor((low + high) / 2)
    if pages[middle].first <= lid then low = middle + 1 else high = middle - 1 end
  end
  while high > 0 and lid <= pages[high].top do
    local page = pages[high]
    page.text = page.text or claim_pages.text(pages.q, page.list, page.k)
    if claim_pages.has(page.text, lid) then
      return claim.score(page.list.number), claim_pages.state(page.list, "CN", size)
    end
    high = high - 1
  end
  return "", ""
end

-- Does this element of the index belong to an available message whose record yields it? Elements of other kinds are accepted.
function audit.indexed(base, member)
  local kind = string.sub(member, 1, 1)
  if kind == "v" then return redis.call("ZSCORE", KEYS[base + 2], string.sub(member, 2)) end
  if not string.find(kind, "[mcgn]") then return true end
  local stop = string.find(member, "\0", 1, true) or 0
  local from = kind == "n" and stop + 19 or stop + 1 -- a sequence number of 16 digits and two signs come first
  local lid = string.sub(member, from, from + 15)
  local rec = redis.call("ZSCORE", KEYS[base + 1], lid) and redis.call("HGET", KEYS[base + 3], lid)
  for _, own in ipairs(rec and audit.members(base, lid, rec) or {}) do
    if own == member then return true end
  end
  return false
end

-- What matching/index would write for a record; nothing if the record is damaged. `must`: only elements that must exist; in
-- an index that is "part" (matching/index_build) those of message and correlation ids need not.
function audit.members(base, lid, rec, must)
  local sound = string.find(rec, "^%d%d%d%d%d%d%d%d%d%d%d%d%d[0-9a-v][^%z]*%z")
  if not sound or not record.is_special(rec) then return {} end
  local flags, stored = unpack(redis.call("HMGET", KEYS[base], "flags", "index"))
  local indexed = must and stored == "part" and queue.never or queue.reach(stored or "")
  local is_subqueue = string.find(KEYS[base], "%%3B[^:]*:q$") and not string.find(KEYS[base], "%3Bjournal:q", -13, true)
  local locks_groups = not is_subqueue and queue.parse_options(flags or "").group_exclusive
  return index.members({ records = KEYS[base + 3], locks_groups = locks_groups, indexed = indexed }, lid, rec)
end

-- Reads about a megabyte of records, as far as the queue's counters are right.
function audit.records(out, base, cursor, budget)
  local mean = tonumber(string.match(redis.call("HGET", KEYS[1], KEYS[base]) or "", "^%S+ %d+ (%d+)")) or 0
  mean = mean / math.max(1, redis.call("HLEN", KEYS[base + 3]))
  local count = math.max(4, math.min(budget, math.floor(1048576 / math.max(mean, 256))))
  local found = redis.call("HSCAN", KEYS[base + 3], cursor, "COUNT", count)
  local items = found[2]
  for n = 1, #items, 2 do
    local lid, rec = items[n], items[n + 1]
    if string.sub(lid, 1, 1) == "^" then
      if redis.call("HEXISTS", KEYS[base + 3], string.sub(lid, 2)) == 0 then
        audit.row(out, "B", KEYS[base + 3], string.sub(lid, 2), #rec)
      end
    else
      local stop = string.find(rec, "\0", 1, true)
      local available = redis.call("ZSCORE", KEYS[base + 1], lid)
      local deadline, state = redis.call("ZSCORE", KEYS[base + 2], lid), redis.call("HGET", KEYS[base + 4], lid)
      if not deadline then
        local packed, told = audit.packed(base, lid, #rec)
        deadline, state = packed, state or told
      end
      local large = redis.call("HEXISTS", KEYS[base + 3], "^" .. lid) == 1
      audit.row(out, "M", KEYS[base + 3], lid, #rec, stop and string.sub(rec, 1, stop) or string.sub(rec, 1, 96),
        large and redis.call("HSTRLEN", KEYS[base + 3], "^" .. lid) or "",
        available or "", deadline, state or "",
        redis.call("ZSCORE", KEYS[base + 5], "e" .. lid) or "", redis.call("ZSCORE", KEYS[base + 5], "d" .. lid) or "",
        redis.call("ZSCORE", KEYS[base + 7], "v" .. lid) or "")
      for _, member in ipairs(available and audit.members(base, lid, rec, true) or {}) do
        if not redis.call("ZSCORE", KEYS[base + 7], member) then audit.row(out, "X", KEYS[base + 7], member) end
      end
    end
  end
  return found[1], #items / 2
end
