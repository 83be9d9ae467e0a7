--- require "core/context"
--- require "core/queue"
--- require "core/store"
-- From a stage into its queue, for messages of which none asks for anything: what core/enqueue would do, without a table for
-- each message.
local publish_plain = { page = 1000 }

-- Up to `most` messages of a stage's list from element `from` on. Returns how many; nothing, and has done nothing, if
-- one of them is large.
function publish_plain.some(q, stage, from, most)
  local items = redis.call("LRANGE", stage.list, from, from + math.min(publish_plain.page, most) - 1)
  local fields, places, bytes, seq = {}, {}, 0, context.seq
  local hex, top, prefix = {}, nil, nil
  for n = 1, #items do
    local priority, flag = string.byte(items[n], 1, 2)
    if flag ~= 48 then return end
    seq = seq + 1
    -- All but the last byte of an id is the same for up to 256 messages of a priority in a row.
    local low = seq % 256
    local high = (seq - low) / 256 + (55 - priority) * 281474976710656
    if high ~= top then top, prefix = high, string.format("%02x%012x", 55 - priority, (seq - low) / 256) end
    hex[low] = hex[low] or string.format("%02x", low)
    local lid, rec = prefix .. hex[low], context.now_text .. string.sub(items[n], 2)
    bytes = bytes + #rec
    fields[n * 2 - 1], fields[n * 2] = lid, rec
    places[n * 2 - 1], places[n * 2] = "0", lid
  end
  if #items == 0 then return 0 end
  context.seq = seq
  store.count(q, #items, bytes)
  redis.call("HSET", q.m, unpack(fields))
  redis.call("ZADD", q.a, unpack(places))
  if q.waiting then
    q.arrived = q.arrived or {}
    for n = 2, #places, 2 do q.arrived[#q.arrived + 1] = places[n] end
  end
  return #items
end
