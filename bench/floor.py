"""What a call has to read and write, whoever makes it: functions of Redis with constants that decide nothing.

They promise nothing and are no product. Their KEYS are those of our scripts; what they read and write is what the
promises ask for: manager, token and kept reply, counters, quota, id, delivery count, fence, lease. All that is decided
is left out. Which messages are settled the library remembers by itself, so that any client can fire the same words.
"""

from __future__ import annotations

from collections.abc import Sequence

_PLACE = "mq:{floor}:"
_PARTS = "qalmstwi"


def queue_keys(queue: str) -> list[str]:
    """What a queue is made of."""
    return [f"{_PLACE}q:{queue}:{part}" for part in _PARTS]


#: As our scripts name them: the manager, the transactions, then the queue.
KEYS = [f"{_PLACE}{part}" for part in ("meta", "txs")] + queue_keys("bench")
#: Those of the send of one plain message.
PLAIN_KEYS = [KEYS[n] for n in (0, 5, 2, 3)]
TARGET_KEYS = KEYS[:2] + queue_keys("target")
BELL = f"{_PLACE}bell:1"
#: A token: slot and number of the call; and the generation of the queue.
TOKEN = ("1.1", "17", "1")

#: What a send reads, and writes beside its message: ``k`` are the KEYS.
_COMMON = """
local call
local LINE = "1|t|4194304|||0 1001 300001 17 -1 0 0"
-- `more`: locks that stand beside the line of the queue, or the line of another.
local function begin(k, more)
    call = redis.call
    if more then
        call("HMGET", k[1], "brief", "counts", "1.1", k[3], more)
    else
        call("HMGET", k[1], "brief", "counts", "1.1", k[3])
    end
    call("TIME")
end
-- `locks`: that stand beside the line.
local function finish(k, reply, locks)
    if locks then
        call("HSET", k[1], "counts", "1001 1001 1001 300001", "1.1", reply, k[3], LINE, "lock:17", locks)
    else
        call("HSET", k[1], "counts", "1001 1001 1001 300001", "1.1", reply, k[3], LINE)
    end
end
"""

_MOVES = (
    _COMMON
    + """
local number, held, first, last = 0, {}, 1, 0
local REPLY, STATE, UNTIL = "17 1763676000000 - 0 1001 16:", "1 0 0 0 286 LN 1.1 17", "1763676030000"
local LOCKS = "1763676030000 28600 286 1.1 "
-- Too long for the compact form of a sorted set.
local LONG = "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"

local function id()
    number = number + 1
    return struct.pack(">I8", number)
end

-- Records, from this argument on, behind a time if one is given. Answers their ids.
local function put(k, argv, from, time)
    local ids, put, places = {}, {}, {}
    for n = from, #argv do
        local new, at = id(), 2 * (n - from) + 1
        ids[n - from + 1], put[at], put[at + 1] = new, new, time and time .. argv[n] or argv[n]
        places[at], places[at + 1] = "0", new
    end
    call("HSET", k[6] or k[2], unpack(put))
    return ids, places
end

-- Take so many off what is available, to be locked by one text: their ids, their records, and that text, if it is not a
-- part of the line.
local function lock(k, size)
    local ids = call("ZRANGE", k[4], "0", size - 1)
    if #ids == 0 then
        return ids, ids
    end
    local records = call("HMGET", k[6], unpack(ids))
    if #ids > 1 then
        call("HLEN", k[7])
        call("ZCARD", k[5])
        call("ZREMRANGEBYRANK", k[4], "0", #ids - 1)
    else
        call("HMGET", k[7], ids[1])
        call("ZREM", k[4], ids[1])
    end
    return ids, records, #ids > 1 and LOCKS .. table.concat(ids) or nil
end

-- What was locked so goes.
local function remove(k, ids)
    if #ids > 1 then
        call("HDEL", k[1], "lock:17")
    end
    call("HDEL", k[6], unpack(ids))
end

local function submit(k, argv, from, time)
    begin(k)
    local ids, places = put(k, argv, from, time)
    call("ZADD", k[4], unpack(places))
    local text = table.concat(ids)
    finish(k, REPLY .. text)
    return text
end

-- Lock so many; settle first what was locked before. Answers ids and records.
local function take(k, size, settles)
    settles = settles and first <= last
    begin(k, settles and #held[first] > 1 and "lock:17")
    if settles then
        local ids = held[first]
        held[first], first = nil, first + 1
        remove(k, ids)
    end
    local ids, records, locks = {}, {}, nil
    if size > 0 then
        ids, records, locks = lock(k, size)
    end
    if #ids > 0 then
        last = last + 1
        held[last] = ids
    else
        call("ZADD", k[9], "1", "D")
    end
    local text = table.concat(ids)
    finish(k, REPLY .. text, locks)
    return text, records
end
"""
)

_LIBRARY = (
    "#!lua name=mqfloor\n"
    + _MOVES
    + """
-- ARGV: the token, then records.
local function send(k, argv)
    return { 0, argv[2], submit(k, argv, 4) }
end

local function ring(k, argv)
    local reply = send(k, argv)
    call("SADD", k[11], "1")
    call("DEL", k[11])
    return reply
end

-- ARGV: the token, how many to lock, "1" to settle those locked before.
local function receive(k, argv)
    local text, records = take(k, tonumber(argv[4]), argv[5] == "1")
    return { 0, argv[2], text, unpack(records) }
end

-- ARGV: the token, the id of a message anywhere in one of our queues. It is taken from there; what we write of manager
-- and queue is written beside it, so that ours stays true. Answers how much it removed.
local function lookup(k, argv)
    local id = argv[4]
    begin(k)
    local record = call("HMGET", k[6], id)[1]
    call("HMGET", k[7], id)
    local removed = call("ZREM", k[4], id) + call("HDEL", k[6], id)
    call("HSET", k[1], "floor", "1001 1001 1001 300001", "floor.1", REPLY .. record, "floor.2", LINE)
    return { 0, removed, id, record }
end

-- ARGV: the token, an identifier as the index has it: what a peek reads that asks for it, where nothing is new.
local function find(k, argv)
    begin(k)
    call("ZRANGE", k[4], "0", "0", "REV")
    local found = call("ZRANGEBYLEX", k[10], "(" .. argv[4] .. "\0", "(" .. argv[4] .. "\1", "LIMIT", "0", "1")[1]
    local id = found:sub(-16)
    local record = call("HMGET", k[6], id)[1]
    call("HMGET", k[7], id)
    return { 0, argv[2], id, record }
end

-- ARGV: the token, then records, put at the end of one of our queues; what we write of manager and queue is written
-- beside it. Answers their ids.
local function store(k, argv)
    begin(k)
    local ids, records, places = {}, {}, { "0", LONG }
    for n = 4, #argv do
        number = number + 1
        local new, at = string.format("04f%013x", number), 2 * (n - 3)
        ids[n - 3], records[at - 1], records[at] = new, new, "1763676000000" .. argv[n]
        places[at + 1], places[at + 2] = "0", new
    end
    local from = #ids > 1 and 1 or 3
    call("HSET", k[6], unpack(records))
    call("ZADD", k[4], unpack(places, from))
    if from == 1 then
        call("ZREM", k[4], LONG)
    end
    local text = table.concat(ids)
    call("HSET", k[1], "floor", "1001 1001 1001 300001", "floor.1", REPLY .. text, "floor.2", LINE)
    return { 0, ids }
end

-- A transaction: take (KEYS of one queue), send on (of the other), commit (of both).
local function tx_receive(k, argv)
    begin(k)
    call("HGET", k[2], "t1.1")
    local id = call("ZRANGE", k[4], "0", "0")[1]
    local record = call("HGET", k[6], id)
    call("HGET", k[7], id)
    call("ZREM", k[4], id)
    call("ZADD", k[5], UNTIL, id)
    call("HSET", k[7], id, STATE)
    call("HSET", k[2], "t1.1:1", "R bench " .. id, "t1.1", "1763676030000 17 1 1")
    finish(k, REPLY .. id)
    return { 0, argv[2], id, record }
end

local function tx_send(k, argv)
    begin(k)
    call("HGET", k[2], "t1.1")
    local ids = put(k, argv, 4)
    call("HSET", k[2], "t1.1:2", "S target " .. ids[1], "t1.1", "1763676030000 17 2 1")
    finish(k, REPLY .. ids[1])
    return { 0, argv[2], ids[1] }
end

local function tx_commit(k, argv)
    begin(k, k[11])
    local log = call("HMGET", k[2], "t1.1", "t1.1:1", "t1.1:2")
    local id = log[2]:sub(9)
    call("HGET", k[7], id)
    call("ZREM", k[5], id)
    call("HDEL", k[7], id)
    call("HDEL", k[6], id)
    call("ZADD", k[12], "0", log[3]:sub(10))
    call("HDEL", k[2], "t1.1", "t1.1:1", "t1.1:2")
    finish(k, REPLY)
    return { 0, argv[2] }
end
"""
    + "".join(
        f"redis.register_function('floor_{name}', {name})\n"
        for name in (
            "send",
            "ring",
            "receive",
            "lookup",
            "find",
            "store",
            "tx_receive",
            "tx_send",
            "tx_commit",
        )
    )
)


#: The same for our own client: called with its arguments, they answer as our scripts do.
_CLIENTS = (
    "#!lua name=mqfloorclient\n"
    + _MOVES
    + """
local HISTORY, NOW, UNTIL, WHAT = 1000000, 1763676000000, "1763676030000", "1 0 0 0"

local function hex(text)
    return (string.gsub(text, "........", function(one) return string.format("%%016x", struct.unpack(">I8", one)) end))
end

local function send(k, argv)
    return { 0, "%(incarnation)s", HISTORY, hex(submit(k, argv, argv[6] and 7 or 5, "1763676000000")) }
end

local function receive(k, argv)
    local text, records
    if argv[4] == "next" then
        text, records = take(k, 1, true)
    else
        text, records = take(k, tonumber(argv[5]), argv[12] == "1")
    end
    return { 0, "%(incarnation)s", HISTORY, "17", UNTIL, NOW, 0, hex(text), WHAT, unpack(records) }
end

local function settle(k, argv)
    take(k, 0, true)
    return { 0, "%(incarnation)s", HISTORY, NOW }
end
"""
    + "".join(
        f"redis.register_function('floor_client_{name}', {name})\n" for name in ("send", "receive", "settle")
    )
)
#: The scripts in whose place they are called.
CLIENTS = {name: f"floor_client_{name}" for name in ("send", "receive", "settle")}
CLIENTS["send_plain"] = CLIENTS["send"]


def load_clients(incarnation: str) -> list[str | bytes]:
    """Loads them, to answer the client of this incarnation of a queue manager."""
    return ["FUNCTION", "LOAD", "REPLACE", _CLIENTS % {"incarnation": incarnation}]


def words(function: str, keys: list[str], *arguments: str | bytes) -> list[str | bytes]:
    """A call of one of the functions, as a client sends it."""
    return ["FCALL", f"floor_{function}", str(len(keys)), *keys, *TOKEN, *arguments]


#: To be refused where another process has loaded them.
LOAD: list[str | bytes] = ["FUNCTION", "LOAD", _LIBRARY]


def setting(keys: Sequence[str] = (*KEYS, *TARGET_KEYS[2:])) -> list[list[str | bytes]]:
    """Commands that put there what the functions read. A long element in what stays short keeps it out of the compact
    form, which is searched from its front."""
    commands: list[list[str | bytes]] = [
        ["HSET", keys[0], "brief", "1", "counts", "1 1 1 1", "1.1", "x" * 65],
    ]
    for at in range(2, len(keys), len(_PARTS)):
        properties, _, locked, _, states = keys[at : at + 5]
        commands.append(["HSET", keys[0], properties, "1 1 1 1 -1 0 0"])
        commands.append(["ZADD", locked, "0", "z" * 65])
        commands.append(["HSET", states, "z" * 65, ""])
    return commands
