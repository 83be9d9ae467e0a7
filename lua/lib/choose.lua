--- require lazy "lib/filter"
--- require lazy "lib/search"
--- require lazy "lib/group"
--- require lazy "lib/index"
--- require lazy "lib/ring"
--- require lazy "lib/arrivals"
-- Waiting readers that want a particular message. They are asked before the others (IBM MQ: MQGMO_WAIT), and only about
-- what they match. In q.w their scores lie below 0, with their filter behind the tag: those found by an identifier,
-- as "w" key id NUL member of q.i, from choose.indexed on, the rest below that.
local choose = { indexed = -1125899906842624, most = 256 }

function choose.enlist(q, member, ticket, text)
  filter.load()
  local key = filter.key(text)
  if key then redis.call("ZADD", q.i, 0, "w" .. key .. "\0" .. member) end
  return redis.call("ZADD", q.w, "NX", choose.indexed * (key and 1 or 2) + tonumber(ticket), member) == 1
end

function choose.strike(q, member, text)
  filter.load()
  local key = filter.key(text)
  if key then redis.call("ZREM", q.i, "w" .. key .. "\0" .. member) end
  local gone = redis.call("ZREM", q.w, member)
  if gone == 1 and not key then
    arrivals.load()
    arrivals.forget(q)
  end
  return gone
end

-- Readers that this message might be for: by its identifiers, then those that no identifier finds.
function choose.candidates(q, lid, rec, others)
  local r, found = index.fields(rec), {}
  local keys = { "i" .. lid, "m" .. (r.m or "smq-" .. lid), r.c and "c" .. r.c, r.g and "g" .. r.g }
  for n = 1, 4 do
    if keys[n] then
      local stem = "w" .. keys[n] .. "\0"
      local members = redis.call("ZRANGEBYLEX", q.i, "[" .. stem, "(w" .. keys[n] .. "\1", "LIMIT", 0, 64)
      for k = 1, #members do found[#found + 1] = string.sub(members[k], #stem + 1) end
    end
  end
  for n = 1, #others do found[#found + 1] = others[n] end
  return found
end

-- Is this arrival something for the reader? Second: the very message that it wants, and not only a part of it.
function choose.suits(q, f, lid, rec)
  local r = index.fields(rec)
  if f.G then return r.g == f.G and r.n == tonumber(f.N) and r.o == tonumber(f.O), true end
  if f.grouped and r.g then
    group.load()
    if f.g and f.g ~= r.g then return false end
    return not string.find(f.f, "[AW]") or group.whole(q, r.g) ~= nil, false
  end
  if f["@"] and lid <= f["@"] then return false end
  return search.admits(q, f, lid, rec), true
end

-- Offers each arrival to the readers that want something particular; returns those that none of them took.
function choose.serve(q, ids)
  filter.load()
  search.load()
  index.load()
  local others = redis.call("ZRANGEBYSCORE", q.w, "-inf", "(-1125899906842624", "LIMIT", 0, choose.most)
  if #others > 0 then
    arrivals.load()
    arrivals.note(q, ids)
  end
  local rest, parsed, served = {}, {}, {}
  for n = 1, #ids do
    local rec, taken = redis.call("HGET", q.m, ids[n]), false
    local members = rec and choose.candidates(q, ids[n], rec, others) or {}
    for k = 1, #members do
      local member = members[k]
      local slot, kind, mode, text = string.match(member, "^(%S+) (%S) (%S+) %S+ (.*)$")
      if not taken and not served[member] then
        parsed[member] = parsed[member] or filter.parse(text)
        local fits, exact = choose.suits(q, parsed[member], ids[n], rec)
        if fits then
          if exact and kind == "P" and not string.find(parsed[member].f, "[HKCW]") then
            ring.hand(q, slot, ids[n])
          elseif exact then
            redis.call("HSET", KEYS[1], slot .. "!", "h " .. ids[n])
          end
          taken = ring.one(slot, mode) and kind ~= "P"
          served[member] = true
          choose.strike(q, member, text)
        end
      end
    end
    if not taken then rest[#rest + 1] = ids[n] end
  end
  return rest
end
