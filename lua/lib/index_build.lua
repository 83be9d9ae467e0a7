--- require "lib/frame"
--- require "lib/position"
--- require "lib/queue"
-- The index of message and correlation ids (lib/index) comes with the first reader who asks for one: until then no message
-- pays for it (docs/decisions/0038). In the queue's hash:
--
--   index     none | part | all: from "part" on what comes and goes enters and leaves it (q.indexed)
--   index_at  only with "part": what was there before is in it up to this id, in delivery order
--
-- One call puts no more than `most` messages into it, or some `bytes` of records. Nobody looks into it before it is whole.
local index_build = { most = 1000, page = 250, bytes = 4194304 }

-- Goes on building. Is it whole now?
function index_build.some(q)
  local at, left, bytes = q.index == "part" and redis.call("HGET", q.q, "index_at"), index_build.most, 0
  q.index, q.indexed = "part", true
  repeat
    local ids = redis.call("ZRANGEBYLEX", q.a, at and "(" .. at or "-", "+", "LIMIT", 0, index_build.page)
    bytes = bytes + index_build.enter(q, ids)
    at, left = ids[#ids] or at, left - #ids
    if #ids < index_build.page then q.index = "all" end
  until q.index == "all" or left <= 0 or bytes > index_build.bytes
  if q.index == "all" then
    redis.call("HSET", q.q, "index", "all")
    redis.call("HDEL", q.q, "index_at")
  else
    redis.call("HSET", q.q, "index", "part", "index_at", at)
  end
  queue.brief(q.q)
  frame.touch()  -- what a doctor has seen of the queue is over
  return q.index == "all"
end

-- Puts these in; of what came since it was begun that changes nothing. Returns the bytes that it read.
function index_build.enter(q, ids)
  if #ids == 0 then return 0 end
  local recs, there, texts, bytes = redis.call("HMGET", q.m, unpack(ids)), { nil }, { nil }, 0
  for n = 1, #ids do
    local rec = recs[n]
    if rec then
      there[#there + 1], texts[#texts + 1] = ids[n], rec
      bytes = bytes + #rec
    end
  end
  position.name(q, there, texts)
  return bytes
end
