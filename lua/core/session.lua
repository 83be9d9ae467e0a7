--- require "core/chunked"
--- require "core/context"
--- require "core/handle"
--- require "transactions/tx"
--- used by queue_open, queue_orphans, session_close, session_list, session_open
-- Sessions of clients, and their slots: reads them, and drops those that are not used any more. session_open.lua makes them. A
-- session is the field "<number>" of meta, its slots are the fields "<number>.<i>" (core/context). The zset `idle` has the numbers
-- of all sessions; score: the ms at which to look whether one was used since.
--
-- Client text, field "client:<number>" of meta: what the client told of itself when it opened the session, as JSON. Of the scripts
-- features/trail alone reads it; mqredis/commands/inspection.py does, too.
--
-- Change together with: a new field of meta that belongs to a session or a slot is removed in session.drop, and is told from others
-- by the doctor (mqredis/operations/doctor/checks/sessions.py). mqredis/drivers/core.py reads the terms. Tests:
-- tests/client/test_idle_clients.py, and tests/client/test_rollback.py for terms.
--
-- idle                the place of `idle` in KEYS, in scripts with "KEYS admin"
-- most_terms          how many terms are kept (session.term)
-- most_swept          how many sessions one call drops, since another client waits for it (session.sweep)
-- last_slot           the last slot of a session that is asked when it was used last (session.used)
-- slots_per_page      how many slots a page of sessions asks (session_list.lua)
-- largest             the bytes of a kept reply that is read for that
local session = { idle = 5, most_terms = 64, most_swept = 8, last_slot = 31, slots_per_page = 1024,
  largest = 16384 }

-- Returns the text of the terms with one more, which begins now. Terms: "<history>:<ms> ...", with how much history each server
-- process began and when, the oldest first. A client that knew a higher number in an earlier term has lost something, however
-- much has been done since: new changes take the numbers of lost ones. Core._began (mqredis/drivers/core.py) compares.
function session.term(terms)
  local kept = {}
  for term in string.gmatch(terms, "%S+") do kept[#kept + 1] = term end
  kept[#kept + 1] = string.format("%.0f:", context.history) .. context.now_text
  return table.concat(kept, " ", math.max(1, #kept - session.most_terms + 1))
end

-- Returns the time to live of a session in ms, and the number of its highest slot; -1 if it never used one.
function session.read(number)
  local ttl, highest = context.parse_session(redis.call("HGET", KEYS[1], number) or "0")
  return tonumber(ttl), tonumber(highest) or -1
end

-- Deletes a session with its slots and what its waiters were handed.
function session.drop(number)
  local _, highest = session.read(number)
  local fields = { number, "client:" .. number }
  for n = 0, highest do
    fields[#fields + 1] = number .. "." .. n
    fields[#fields + 1] = number .. "." .. n .. "!"
  end
  chunked.run("HDEL", KEYS[1], fields)
  redis.call("ZREM", KEYS[session.idle], number)
  context.mark_changed()
end

-- Returns when one of the slots of a session was last used, in ms, 0 if none ever was; its time to live in ms; and how many
-- elements of meta were read for that. `is_estimate`: only the first slots are asked, and no long replies are read. A client takes
-- the slot that it used last, so the first ones are those that are used.
function session.used(number, is_estimate)
  local last, ttl, highest = 0, session.read(number)
  if is_estimate then highest = math.min(highest, session.last_slot) end
  for n = 0, highest do
    local slot = number .. "." .. n
    local is_read = not is_estimate or redis.call("HSTRLEN", KEYS[1], slot) <= session.largest
    local kept = is_read and redis.call("HGET", KEYS[1], slot)
    if kept then last = math.max(last, tonumber((context.reply_moment(kept)))) end
  end
  return last, ttl, highest + 2
end

-- Deletes the handles of sessions that are gone. `gone`: the set of their numbers.
function session.drop_handles(gone)
  local found, from = {}, 0
  repeat
    local page = redis.call("ZRANGE", KEYS[handle.key], from, from + 499)
    from = from + 500
    for n = 1, #page do
      if gone[handle.owner(page[n])] then found[#found + 1] = page[n] end
    end
  until #page < 500
  chunked.run("ZREM", KEYS[handle.key], found)
end

-- Drops sessions that were not used for their time to live. That of this call is used now.
function session.sweep()
  local now = string.format("%.0f", context.now)
  local idle = redis.call("ZRANGEBYSCORE", KEYS[session.idle], "-inf", now, "LIMIT", 0, session.most_swept)
  local gone = {}
  for n = 1, #idle do
    local used, ttl = session.used(idle[n], false)
    local until_ms = used + ttl
    if until_ms > context.now or idle[n] == context.owner() then
      redis.call("ZADD", KEYS[session.idle], until_ms, idle[n])
    else
      session.drop(idle[n])
      gone[idle[n]] = true
    end
  end
  if next(gone) then session.drop_handles(gone) end
end

-- Forgets a few transactions whose lease is over (tx.sweep). The field "units" of meta says where the last call has stopped.
function session.sweep_transactions()
  local place = redis.call("HGET", KEYS[1], "units") or "0"
  local further = tx.sweep(place, 32)
  if further ~= place then redis.call("HSET", KEYS[1], "units", further) end
end
