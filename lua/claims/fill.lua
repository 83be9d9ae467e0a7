--- require "claims/claims"
--- require "claims/claim_pages"
--- require "core/chunked"
--- require lazy "core/message_state"
--- require "core/position"
--- require "core/removal"
--- require lazy "core/record"
--- require "core/seek"
--- require "core/store"
--- require lazy "features/group_lock"
--- require lazy "matching/search"
--- used by claim
-- Fills a claim (claims/claims) from the front of its queue, one page in each call of claim.lua: fill.plan decides what the page
-- takes, fill.apply locks it.
--
-- Records are read only if they have to be: in most queues the sizes of messages are all that a claim needs. If no message of a
-- page needs a state, the page is stored packed (claims/claim_pages).
--
-- A page, in this module, is a table with these fields (what claims/claim_pages calls a page is made from it at the end). A column
-- is a list with an element for each message; the n-th elements of all columns belong to one message, the n-th row.
--
--   ids         column: lookup ids in delivery order
--   records     column; nil if no record has to be read
--   sizes       column: bytes; nil if the records tell
--   states      column: state texts of messages that were locked before, false or nil for others; nil if none was
--   entries     by row, of messages that ask for something (core/position)
--   expired     list of entries whose time to live is over: they leave the queue instead
--   bytes       of all rows
--   is_front    the ids are the first ones of q.available, so that they can be taken out by their number
--   is_rest     there is nothing more that the claim could take
--   completes   the claim is complete with this page
--   place       where a search goes on; nil without a filter
--   groups      group ids by lookup id, in a queue whose groups take turns (features/group_lock); nil in others
--
-- Change together with: claims.turns, claims.ids and claims.between in claims/claims, with which claim_wait.lua, claim_match.lua
-- and claim_backlog.lua tell whether a claim would take something; core/seek, which chooses messages for readers;
-- tests/property/packed.py, which replaces a line of fill.own_states. Tests: tests/client/test_claim_choice.py.
--
-- After fill.choose only `ids` has the right length; the other columns may be longer. The ids of a page that is stored packed
-- ascend, as in delivery order.
local fill = {}

-- Decide ----------------------------------------------------------------------------------------------------------------

-- Returns the next page of a claim, which is open and not complete; nil if context.missing names queues that it takes. `limits`:
-- what the caller of claim.lua asks for, a table with the fields
--
--   max_bytes     of the claim; nil for no limit
--   after, bound  SequentialIDs, 14 hex digits: messages behind `after`, and none behind `bound`; "" for no limit
--   filter        text of a filter (matching/filter); "" for none
--   place         where the search of the call before has stopped; "" at first
function fill.plan(q, claim, limits)
  local page = fill.candidates(q, claim, limits)
  fill.choose(q, claim, page, limits.max_bytes)
  if removal.plan(q, page.expired, "receive_timeout") then return page end -- else context.missing is set
end

-- Returns a page of what the claim may take. There are three ways: a search for what the filter admits, the turns of groups, and
-- the front of the queue.
function fill.candidates(q, claim, limits)
  local page = { ids = nil, records = nil, sizes = nil, states = nil, entries = {}, expired = {}, bytes = 0,
    is_front = nil, is_rest = nil, completes = nil, place = nil, groups = nil }
  local count = claim.wanted - claim.count
  if limits.filter ~= "" then
    fill.search(q, page, math.min(count, claims.page_with_records), limits)
  elseif q.locks_groups then
    fill.take_turns(q, page, math.min(count, claims.page_with_records))
  else
    -- Messages that ask for something take longer, so a call looks at fewer.
    count = math.min(count, q.has_special and claims.page_with_records or claims.page_without_records)
    fill.take_front(q, page, count, limits)
  end
  return page
end

-- Fills a page with up to `count` messages from the front of the queue, within the limits.
function fill.take_front(q, page, count, limits)
  page.ids, page.is_front = fill.range(q, count, limits.after, limits.bound)
  page.is_rest = #page.ids < count
  if page.ids[1] then
    page.sizes = fill.sizes(q, page.ids)
    page.records = not page.sizes and chunked.read(q.records, page.ids) or nil
    page.states = fill.states(q, page.ids)
  end
end

-- Fills a page with up to `count` messages that the filter admits. page.place says where the next call goes on.
function fill.search(q, page, count, limits)
  local entries = {}
  if count > 0 then
    entries, page.place = search.read_page(q, limits.filter, limits.place, count, { takes = true })
    page.is_rest = not page.place
    entries = claims.between(entries, limits.after, limits.bound)
  end
  fill.set_columns(page, entries)
end

-- Fills a page with up to `count` messages, one of each group whose turn it is (features/group_lock). The limits do not count,
-- since the first message of a group is never passed over (docs/spark.md).
function fill.take_turns(q, page, count)
  local entries = {}
  if count > 0 then
    entries, page.groups = group_lock.next_in_turn(q, count)
    page.is_rest = #entries < count
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

-- Returns ids as claims.ids does, and whether these are the first ids of the queue. Most claims need no look at each priority:
-- the first ids of the queue are within the limits if they have one priority, and the first and the last one are.
function fill.range(q, count, after, bound)
  if count == 0 then return {} end
  local ids = redis.call("ZRANGE", q.available, 0, count - 1)
  if #ids == 0 or (after == "" and bound == "") then return ids, true end
  local first, last = ids[1], ids[#ids]
  if string.sub(first, 1, 2) == string.sub(last, 1, 2) and string.sub(first, 3) > after
    and (bound == "" or string.sub(last, 3) <= bound) then
    return ids, true
  end
  return claims.ids(q, count, after, bound), false
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

-- Takes rows until the claim is complete, and drops the others from the columns: a row that is taken moves to the first free place.
-- Expired messages go to page.expired. Sets page.completes, page.bytes and page.entries.
function fill.choose(q, claim, page, max_bytes)
  local ids, records, sizes, free, flag_at = page.ids, page.records, page.sizes, record.free, record.flag_at
  local taken, count = 0, #ids -- taken: the last place that is filled
  page.completes = page.is_rest or claim.count + count >= claim.wanted
  for n = 1, count do
    local rec = records and records[n]
    local asks = rec and not free[string.byte(rec, flag_at)] -- for something (core/record), so it may have expired
    local entry = asks and fill.entry(page, n) or nil
    if entry and seek.expired(entry) then
      page.expired[#page.expired + 1] = entry
      -- Its place is free: only a queue without more makes the claim complete.
      page.completes, page.is_front = page.is_rest, false
    elseif not rec and not sizes then
      page.is_front = false -- a message without a record is passed over, and left to the doctor
    else
      local size = sizes and sizes[n] or entry and position.size(q, entry) or #rec
      if max_bytes and claim.count + taken > 0 and claim.bytes + page.bytes + size > max_bytes then
        page.completes = true
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
  if taken == 0 and not page.expired[1] and not page.place then page.completes = true end
end

-- Returns a row, which has a record, as an entry (core/position).
function fill.entry(page, n)
  local state_text = page.states and page.states[n]
  return { id = page.ids[n], rec = page.records[n], state = state_text and message_state.parse(state_text) or nil }
end

-- Moves a row of the columns to a free row before it.
function fill.move_row(page, from, to)
  page.ids[to] = page.ids[from]
  if page.records then page.records[to] = page.records[from] end
  if page.sizes then page.sizes[to] = page.sizes[from] end
  if page.states then page.states[to] = page.states[from] end
end

-- Apply -----------------------------------------------------------------------------------------------------------------

-- Locks a page that fill.plan returned, and deletes what has expired. Changes the claim, which the caller saves: it is complete
-- with its last page.
function fill.apply(q, claim, page)
  removal.delete(q, page.expired, "receive_timeout")
  if page.ids[1] then fill.lock(q, claim, page) end
  claim.count, claim.bytes = claim.count + #page.ids, claim.bytes + page.bytes
  if page.completes then claim.sealed = claims.complete end
end

-- Locks the rows of a page: packed if no message needs a state, else each with a state.
function fill.lock(q, claim, page)
  local ids = page.ids
  if page.groups then group_lock.move_turns(q, page.groups, ids) end
  local own_states, packed = fill.own_states(q, claim, page)
  if page.is_front then store.withdraw_first(q, #ids) else store.withdraw(q, ids) end
  if not packed then
    store.lock_without_lease(q, ids, fill.all_states(claim, page, own_states), claims.score(claim.number))
  end
  claim_pages.add(q, claim, ids, page.bytes, packed)
end

-- Tells the features of messages that are about to be locked (position.before_lock). Returns by row the new state texts of those
-- that were locked before or ask for something; and true if no message of the page needs a state, so that the page may be packed.
function fill.own_states(q, claim, page)
  local ids, records, own_states, may_pack = page.ids, page.records, {}, true
  local owner, fence, plain_claim = claim.owner, string.format("%d", claim.seq), message_state.plain_claim
  local wants = records and position.before_lock(q, ids, records, message_state.claimed)
  for n = 1, (records or page.states) and #ids or 0 do
    local entry, state_text = page.entries[n], page.states and page.states[n]
    local reads_record = records and position.end_reads_record(q, records[n], wants[n])
    local kind = reads_record and message_state.claimed or plain_claim
    if state_text then
      own_states[n] = message_state.again(state_text, kind, owner, fence)
    elseif entry then
      own_states[n] = message_state.first(position.size(q, entry), kind, owner, fence)
    end
    may_pack = may_pack and not state_text and kind == plain_claim
  end
  return own_states, may_pack
end

-- Returns the state texts of all rows as pairs of id and text. `own_states`: of fill.own_states; the other rows have the state of a
-- plain message that is locked for the first time.
function fill.all_states(claim, page, own_states)
  local id_states, owner, fence = { nil, nil }, claim.owner, string.format("%d", claim.seq)
  for n = 1, #page.ids do
    local size = page.sizes and page.sizes[n] or #page.records[n]
    id_states[n * 2 - 1] = page.ids[n]
    id_states[n * 2] = own_states[n] or message_state.first(size, message_state.plain_claim, owner, fence)
  end
  return id_states
end
