--- require "core/context"
--- require "core/chunked"
--- require "core/position"
--- require "core/queue"
--- require "core/record"
--- require "core/store"
-- How a unit of work ends for messages that ask for nothing, in queues that ask for nothing either: what transactions/outcome
-- would do, without a table for each message. Their states say so by an N, and all that is to be known of what leaves.
-- R, S: the bytes with which operations begin, and the kinds of their states.
local outcome_plain = { R = 82, S = 83 }

-- Decide: is all of this part plain? Nothing is written. Returns false, or what becomes of it: ids that `leave`, their
-- `bytes`, ids that come `back` or appear; nothing in the place of no ids.
function outcome_plain.read(t, part, commit)
  local q, ids, texts = part.q, part.ids, part.texts
  -- Who leaves may be copied into a journal, who comes back may have had its tries; turns of groups go on with either.
  if q.flags ~= "t" and string.find(q.flags, commit and "[jx]" or "[rx]") then return false end
  local states, byte, sub = chunked.read(q.s, ids), string.byte, string.sub
  local R, S, seen, count, bytes = outcome_plain.R, outcome_plain.S, #ids > 1 and {}, 0, 0
  local goes, tail = commit and R or S, "N " .. t.id .. " " .. t.fence
  local place = -#tail - 1
  for n = 1, #ids do
    local text, op = states[n], byte(texts[n])
    if not text or op ~= R and op ~= S or byte(text, place) ~= op or sub(text, place + 1) ~= tail then return false end
    if op == goes then
      count = count + 1
      bytes = bytes + string.match(text, "^%d+ %d+ %d+ %d+ (%d+)")
    end
    if seen then
      if seen[ids[n]] then return false end
      seen[ids[n]] = true
    end
  end
  local plain = { leave = nil, bytes = bytes, back = nil, recs = nil, states = nil, named = false }
  outcome_plain.split(plain, ids, texts, goes, count)
  if not plain.back then return plain end
  if not commit then plain.states = outcome_plain.states(ids, texts, states) end
  return outcome_plain.free(q, plain) and plain
end

-- `count` of these ids leave: those whose operations begin with the byte `goes`.
function outcome_plain.split(plain, ids, texts, goes, count)
  if count == #ids then
    plain.leave = ids
  elseif count == 0 then
    plain.back = ids
  else
    plain.leave, plain.back = { nil }, { nil }
    for n = 1, #ids do
      local to = string.byte(texts[n]) == goes and plain.leave or plain.back
      to[#to + 1] = ids[n]
    end
  end
end

-- What is written about those that were received, after an abort.
function outcome_plain.states(ids, texts, states)
  local found = { nil, nil }
  for n = 1, #ids do
    if string.byte(texts[n]) == outcome_plain.R then
      local deliveries, aborts, rest = string.match(states[n], "^(%d+) (%d+) (%d+ %d+ %d+)")
      found[#found + 1] = ids[n]
      found[#found + 1] = string.format("%s %d %s - - 0", deliveries, aborts + 1, rest)
    end
  end
  return found
end

-- Reads the records of what comes back. False if one asks for something after all.
function outcome_plain.free(q, plain)
  local recs, byte, free, named = chunked.read(q.m, plain.back), string.byte, record.free, false
  for n = 1, #recs do
    local kind = recs[n] and free[byte(recs[n], 14)]
    if not kind then return false end
    named = named or kind == "named"
  end
  plain.recs, plain.named = recs, named
  return true
end

-- Bits 2 and 4 of the first and the last message sent.
function outcome_plain.mark(part, lid, bits)
  local back, recs = part.plain.back, part.plain.recs
  local n = back[1] == lid and 1 or #back
  recs[n] = record.mark(recs[n], bits)
  redis.call("HSET", part.q.m, lid, recs[n])
end

-- Apply.
function outcome_plain.finish(part, commit)
  local q, plain, ids = part.q, part.plain, part.ids
  local leave, back = plain.leave, plain.back
  chunked.run("ZREM", q.l, ids)
  local free = commit and ids or leave
  if free then chunked.run("HDEL", q.s, free) end
  if leave then
    store.count(q, -#leave, -plain.bytes)
    if not commit then q.gone = q.gone - #leave end  -- it was never there
    chunked.run("HDEL", q.m, leave)
  end
  if back then
    if not commit then chunked.run("HSET", q.s, plain.states) end
    position.enter(q, back, plain.recs, plain.named)
  end
  context.mark_changed()
end
