-- Which of the commands that the scripts use may this user not run? A script that is refused half-way would leave its
-- first half behind, so a client asks before it begins. Changes nothing: the server is asked about each command with arguments that
-- are valid for it. Any key of the manager serves, since users have one pattern for all of them.
-- MS-MQDMPR 3.1.3 Initialization
--
-- CALLERS preflight in mqredis/commands/manager.py
-- KEYS admin
-- ARGV[3] channel  of a notification
-- RETURNS OK names of commands that are refused, in lower case; none where the server cannot tell (before Redis 7)
-- FLAGS allow-oom
-- Change together with: the commands of all scripts but this one, audit and repair; SCRIPT_COMMANDS in mqredis/cli/acl.py
-- (tests/cli/test_acl.py compares all three).
-- Not context.open: it would run some of these commands.
local refused = { status.OK, "", 0 }
if not redis.acl_check_cmd then return refused end
local hash, zset = KEYS[1], KEYS[5]
for _, try in ipairs({
  { "hget", hash, "f" }, { "hmget", hash, "f" }, { "hset", hash, "f", "v" }, { "hdel", hash, "f" },
  { "hincrby", hash, "f", "1" }, { "hexists", hash, "f" }, { "hlen", hash }, { "hkeys", hash },
  { "hgetall", hash }, { "hstrlen", hash, "f" }, { "hscan", hash, "0" },
  { "zadd", zset, "0", "m" }, { "zrem", zset, "m" },
  { "zrange", zset, "0", "1" }, { "zrangebyscore", zset, "0", "1" }, { "zrangebylex", zset, "-", "+" },
  { "zrevrangebylex", zset, "+", "-" }, { "zremrangebylex", zset, "-", "+" }, { "zscore", zset, "m" },
  { "zremrangebyrank", zset, "0", "1" },
  { "zcard", zset }, { "zcount", zset, "0", "1" }, { "zlexcount", zset, "-", "+" }, { "exists", zset },
  { "unlink", zset }, { "time" }, { "sadd", zset, "m" }, { "del", zset }, { "lindex", zset, "0" }, { "llen", zset },
  { "lrange", zset, "0", "1" }, { "ltrim", zset, "0", "1" }, { "rpush", zset, "v" }, { "persist", zset },
  { "pexpire", zset, "1" }, { "pttl", zset },
  { "publish", ARGV[3], "sadd" }, { "pubsub", "numsub", ARGV[3] },
}) do
  if not redis.acl_check_cmd(unpack(try)) then refused[#refused + 1] = try[1] end
end
return refused
