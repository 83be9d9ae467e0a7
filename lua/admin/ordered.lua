--- used by admin/scheduled, lock_list, message_list, session_list
-- Reads a sorted set page by page in its own order, by score and then by member. The next page begins behind a pair of
-- score and member, whether that pair is still in the set or not. So an element that comes or goes shifts no other one to
-- another page. Scores are texts, as Redis returns them. Tests: tests/contract/test_stored_texts.py (the order of members),
-- tests/inspection.
local ordered = {}

-- Does a member stand behind another one of the same score? Compares bytes, as Redis does; < and > of Lua go by the locale of the
-- server.
function ordered.is_behind(member, other)
  for n = 1, math.min(#member, #other) do
    local left, right = string.byte(member, n), string.byte(other, n)
    if left ~= right then return left > right end
  end
  return #member > #other
end

-- Returns the rank of the first element behind this score and member; both are "" for the first page. Takes O(log n) reads.
function ordered.rank(key, score, member)
  if score == "" then return 0 end
  local low = redis.call("ZCOUNT", key, "-inf", "(" .. score)
  local high = low + redis.call("ZCOUNT", key, score, score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local is_behind = ordered.is_behind(redis.call("ZRANGE", key, middle, middle)[1], member)
    if is_behind then high = middle else low = middle + 1 end
  end
  return low
end

-- Returns members and scores, in turn, of up to `count` elements behind this score and member.
function ordered.page(key, score, member, count)
  local rank = ordered.rank(key, score, member)
  return redis.call("ZRANGE", key, rank, rank + count - 1, "WITHSCORES")
end
