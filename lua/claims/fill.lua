--- require "claims/claim"
--- require "claims/claim_pages"
--- require "core/chunked"
--- require "core/message_state"
--- require "core/position"
--- require "core/queue"
--- require "core/record"
--- require "core/seek"
--- require "core/store"
--- require lazy "features/group_lock"
--- require lazy "matching/search"
--- used by claim
-- Fills a claim from the front of its queue, one page in each call of claim.lua: fill.plan decides what the page takes,
-- fill.apply locks it. `c` is the claim (claims/claim).
--
-- Records are read only if they have to be: in most queues the sizes of messages are all that a claim needs. If no message of a
-- page needs a state, the page is stored packed (claims/claim_pages).
--
-- A page, in this module, is a table with these fields:
--
--   ids       column: lookup ids in delivery order
--   records   column; nil if no record has to be read
--   sizes     column: bytes; nil if the records tell
--   states    column: state texts of messages that were locked before, false or nil for others; nil if none was
--   entries   by row, of messages that ask for something (core/position)
--   expired   list of entries whose time to live is over: they leave the queue instead
--   bytes     of all rows
--   first     are these the first messages of the queue, so that they can be taken out by their number
--   dry       is there nothing more that the claim could take
--   full      is the claim complete with this page
--   place     where a search goes on; nil without a filter
--   groups    group ids by lookup id, in a queue whose groups take turns (features/group_lock); nil in others
--
-- After fill.choose only `ids` has the right length; the other columns may be longer. The ids of a page that is stored packed
-- ascend, as in delivery order.
local fill = {}

-- Decide ----------------------------------------------------------------------------------------------------------------

-- Returns the next page of a claim; nil if context.missing names queues that it takes. `limits`: a table of max_bytes of the
-- claim (nil: none), after and bound (SequentialIDs, "": none), filter ("": none), and the place where the last call stopped.
function fill.plan(q, c, limits)
  local page = fill.candidates(q, c, limits)
  fill.choose(q, c, page, limits.max_bytes)
  if position.may_leave(q, page.expired, "receive_timeout") then return page end -- else context.missing is set
end

-- Returns a page of what the claim may take.
function fill.candidates(q, c, limits)
  local page = { ids = nil, records = nil, sizes = nil, states = nil, entries = {}, expired = {}, bytes = 0,
    first = nil, dry = nil, full = nil, place = nil, groups = nil }
  local count = c.wanted - c.count
  if limits.filter ~= "" then
    fill.search(q, page, math.min(count, claim.page), limits)
    return page
  elseif q.locks_groups then
    fill.take_turns(q, page, math.min(count, claim.page))
    return page
  end
  -- Messages that ask for something take longer, so a call looks at fewer.
  count = math.min(count, q.has_special and claim.page or claim.run)
  page.ids, page.first = fill.range(q, count, limits.after, limits.bound)
  page.dry = #page.ids < count
  if page.ids[1] then
    page.sizes = fill.sizes(q, page.ids)
    page.records = not page.sizes and chunked.read(q.records, page.ids) or nil
    page.states = fill.states(q, page.ids)
  end
  return page
end

-- Fills a page with up to `count` messages that the filter admits. page.place says where the next call goes on.
function fill.search(q, page, count, limits)
  local entries = {}
  if count > 0 then
    search.load()
    -- With one active message for each group, a search must not find two of one group.
    local most = q.locks_groups and 1 or count
    entries, page.place = search.look(q, limits.filter, limits.place, most, { takes = true })
    page.dry = #entries == 0 and not page.place
    if #entries > 0 and not page.place then page.place = entries[#entries].id end
    entries = claim.between(entries, limits.after, limits.bound)
  end
  fill.set_columns(page, entries)
end

-- Fills a page with up to `count` messages, one of each group whose turn it is (features/group_lock).
function fill.take_turns(q, page, count)
  local entries = {}
  if count > 0 then
    group_lock.load()
    entries, page.groups = group_lock.next_in_turn(q, count)
    page.dry = #entries < count
  end
  fill.set_columns(page, entries)
end

-- Sets the columns of a page from entries.
function fill.set_columns(page, entries)
  page.ids, page.records, page.states = { nil }, { nil }, {}
  for n = 1, #entries do
    local entry = entries[n]
    page.ids[n], page.records[n] = entry.id, entry.rec
    page.states[n] = entry.state and message_state.format(entry.state) or nil
  end
end

-- Returns ids as claim.ids does, and whether these are the first ids of the queue. Most claims need no look at each priority:
-- the first ids of the queue are within the limits if they have one priority, and the first and the last one are.
function fill.range(q, count, after, bound)
  if count == 0 then return {}, false end
  local ids = redis.call("ZRANGE", q.available, 0, count - 1)
  if #ids == 0 or (after == "" and bound == "") then return ids, true end
  local first, last = ids[1], ids[#ids]
  if string.sub(first, 1, 2) == string.sub(last, 1, 2) and string.sub(first, 3) > after
    and (bound == "" or string.sub(last, 3) <= bound) then
    return ids, true
  end
  return claim.ids(q, count, after, bound), false
end

-- Returns the sizes of these messages, if no record has to be read: the queue never held a message that asks for something, and
-- holds no large body, as it has one field for each message. Else nil.
function fill.sizes(q, ids)
  if q.has_special then return end
  if redis.call("HLEN", q.records) ~= tonumber(q.messages) then return end
  local sizes = { nil }
  for n = 1, #ids do
    local size = redis.call("HSTRLEN", q.records, ids[n])
    if size == 0 then return end
    sizes[n] = size
  end
  return sizes
end

-- Returns the states of these messages; nil if none has one. Every locked message that is not in a packed page has a state: if
-- there are no more states than that, none of these has one. q.states also has the fields of the packed pages.
function fill.states(q, ids)
  local _, page_fields = claim_pages.packed(q)
  if redis.call("HLEN", q.states) - page_fields == redis.call("ZCARD", q.locked) then return end
  return chunked.read(q.states, ids)
end

-- Takes rows until the claim is full, and drops the others from the columns: a row that is taken moves to the first free place.
-- Expired messages go to page.expired.
function fill.choose(q, c, page, max_bytes)
  local ids, records, sizes, free, flag_at = page.ids, page.records, page.sizes, record.free, record.flag_at
  local taken, count = 0, #ids -- taken: the last place that is filled
  page.full = page.dry or c.count + count >= c.wanted
  for n = 1, count do
    local text, entry = records and records[n], nil
    if text and not free[string.byte(text, flag_at)] then -- it asks for something (core/record), so it may have expired
      local state_text = page.states and page.states[n]
      entry = { id = ids[n], rec = text, state = state_text and message_state.parse(state_text) or nil }
    end
    if entry and seek.expired(entry) then
      page.expired[#page.expired + 1] = entry
      page.full, page.first = page.dry, false -- its place is free: only a queue without more makes the claim complete
    elseif not text and not sizes then
      page.first = false -- a message without a record is passed over, and left to the doctor
    else
      local size = sizes and sizes[n] or entry and position.size(q, entry) or #text
      if max_bytes and c.count + taken > 0 and c.bytes + page.bytes + size > max_bytes then
        page.full = true
        break
      end
      taken = taken + 1
      page.bytes = page.bytes + size
      page.entries[taken] = entry
      if taken < n then fill.move_row(page, n, taken) end
    end
  end
  for n = count, taken + 1, -1 do ids[n] = nil end
  -- A page of ids without records, which the doctor removes, must not make the client ask for it for ever.
  if taken == 0 and not page.expired[1] and not page.place then page.full = true end
end

-- Moves a row of the columns to a free row before it.
function fill.move_row(page, from, to)
  page.ids[to] = page.ids[from]
  if page.records then page.records[to] = page.records[from] end
  if page.sizes then page.sizes[to] = page.sizes[from] end
  if page.states then page.states[to] = page.states[from] end
end

-- Apply -----------------------------------------------------------------------------------------------------------------

-- Locks a page that fill.plan returned, and deletes what has expired. The claim is sealed with its last page.
function fill.apply(q, c, page)
  if page.expired[1] then position.delete(q, page.expired, "receive_timeout") end
  local ids = page.ids
  if ids[1] then
    if page.groups then group_lock.move_turns(q, page.groups, ids) end
    local texts, paged = {}, claim_pages.uses_pages(q, c)
    local packed = fill.withdraw(q, c, page, texts) and paged
    if not packed then store.lock_without_lease(q, ids, fill.states_of(c, page, texts), claim.score(c.number)) end
    if paged then claim_pages.add(q, c, ids, page.bytes, packed) end
  end
  c.count, c.bytes = c.count + #ids, c.bytes + page.bytes
  if page.full then c.sealed = claim.complete end
end

-- Makes the rows unavailable, after their features were told (position.before_lock). Fills `texts`, by row, with the new states
-- of messages that were locked before or ask for something. Returns true if no message of the page needs a state, so that the
-- page may be packed.
function fill.withdraw(q, c, page, texts)
  local ids, records, packed = page.ids, page.records, true
  local owner, seq, plain_claim = c.owner, string.format("%d", c.seq), message_state.plain_claim
  local wants = records and position.before_lock(q, ids, records, message_state.claimed)
  for n = 1, (records or page.states) and #ids or 0 do
    local entry, state_text = page.entries[n], page.states and page.states[n]
    local kind = records and position.end_reads_record(q, records[n], wants[n]) and message_state.claimed or plain_claim
    if state_text then
      texts[n] = message_state.again(state_text, kind, owner, seq)
    elseif entry then
      texts[n] = message_state.first(position.size(q, entry), kind, owner, seq)
    end
    packed = packed and not state_text and kind == plain_claim
  end
  if page.first then store.withdraw_first(q, #ids) else store.withdraw(q, ids) end
  return packed
end

-- Returns pairs of ids and states of the page. `texts`: as fill.withdraw has filled it.
function fill.states_of(c, page, texts)
  local found, owner, seq = { nil, nil }, c.owner, string.format("%d", c.seq)
  for n = 1, #page.ids do
    local size = page.sizes and page.sizes[n] or #page.records[n]
    found[n * 2 - 1] = page.ids[n]
    found[n * 2] = texts[n] or message_state.first(size, message_state.plain_claim, owner, seq)
  end
  return found
end
