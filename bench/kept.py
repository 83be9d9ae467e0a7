"""The least that keeps the promises: a send, and a lock with the commit of the last, each as one flat function.

They are called with the arguments of our scripts on a manager of ours, and leave and answer what ours do: token and
kept reply, session, generation, counters, timers, waiting readers, size, fence, delivery count, lease, index. Written
for the plainest message and nothing else; whatever is not so plain they refuse. So what they cost is what the promises
cost, and what our scripts cost beyond them is what serving every other case costs. No product.
"""

from __future__ import annotations

#: The scripts in whose place they are called.
FUNCTIONS = {"send": "kept_send", "receive": "kept_receive"}

LIBRARY = """#!lua name=mqkept
local managers, queues = {}, {}
local call, match, format, sub, byte, find, floor
local function ready()
    call, match, format = redis.call, string.match, string.format
    sub, byte, find, floor = string.sub, string.byte, string.find, math.floor
end

local function manager_of(text)
    local incarnation, clock, throttled, messages, bytes = match(text, "^2 (%S*) (%S*) (%S*) (%d*) (%d*)$")
    local plain = throttled ~= "1" and messages == "" and bytes == ""
    local known = { incarnation = incarnation, clock = clock + 0, plain = plain }
    managers[text] = known
    return known
end

local function queue_of(text)
    local generation, flags, most, messages, bytes = match(text, "^(%d+)|(%a*)|(%d*)|(%d*)|(%d*)$")
    local plain = flags == "" and messages == "" and bytes == ""
    local known = { generation = generation, most = most + 0, plain = plain }
    queues[text] = known
    return known
end

local function other()
    return redis.error_reply("KEPT for plain calls only")
end

local function send(k, argv)
    if not call then
        ready()
    end
    local slot, sequence, text = argv[1], argv[2], argv[7]
    local meta, time = call("HMGET", k[1], "brief", "counts", match(slot, "^%d+"), slot), call("TIME")
    local p = call("HMGET", k[3], "brief", "counts")
    if not meta[3] or not meta[4] or argv[4] ~= "" or argv[8] then
        return other()
    end
    local last = match(meta[4], "^%d+")
    if #sequence < #last or (#sequence == #last and sequence <= last) then
        return other()
    end
    local manager, queue = managers[meta[1]] or manager_of(meta[1]), queues[p[1]] or queue_of(p[1])
    local history, seq, messages, bytes = match(meta[2], "^(%d+) (%S+) (%S+) (%S+)$")
    local here, held, gone, due, waiting, hooked = match(p[2], "^(%d+) (%d+) (%d+) (%-?%d+) ([01]) ([01])$")
    local now = time[1] * 1000 + floor(time[2] / 1000) + manager.clock
    local stamp, flag = format("%d", now), byte(text)
    local record = stamp .. text
    local size = #record
    if
        not manager.plain or not queue.plain or queue.generation ~= argv[3] or waiting == "1"
        or (due ~= "-1" and due + 0 <= now) or (flag ~= 48 and flag ~= 104) or size > queue.most
    then
        return other()
    end
    local id = format("%02x%014x", 55 - byte(argv[6]), seq + 1)
    call("HSET", k[6], id, record)
    if flag == 104 then
        hooked = "1"
        local at = find(record, "\\3c", 15, true)
        call("ZADD", k[10], "0", sub(record, at + 1, find(record, "\\0", at, true)) .. id)
    end
    call("ZADD", k[4], "0", id)
    call("HSET", k[3], "counts", format("%d %d %s %s 0 %s", here + 1, held + size, gone, due, hooked))
    call("HSET", k[1], "counts", format("%d %d %d %d", history + 1, seq + 1, messages + 1, bytes + size), slot,
        format("%s %s - 0 %d 16:%s0:", sequence, stamp, history + 1, id))
    return { 0, manager.incarnation, history + 1, id, "" }
end

local function receive(k, argv)
    if not call then
        ready()
    end
    local slot, sequence, left = argv[1], argv[2], argv[15]
    local meta, time = call("HMGET", k[1], "brief", "counts", match(slot, "^%d+"), slot), call("TIME")
    local p = call("HMGET", k[3], "brief", "counts")
    if
        not meta[3] or not meta[4] or argv[4] ~= "lock" or argv[5] ~= "1" or argv[8] ~= "" or argv[9] ~= ""
        or argv[11] ~= "" or (left and (argv[13] ~= "c" or #left ~= 16))
    then
        return other()
    end
    local last = match(meta[4], "^%d+")
    if #sequence < #last or (#sequence == #last and sequence <= last) then
        return other()
    end
    local manager, queue = managers[meta[1]] or manager_of(meta[1]), queues[p[1]] or queue_of(p[1])
    local history, seq, messages, bytes = match(meta[2], "^(%d+) (%S+) (%S+) (%S+)$")
    local here, held, gone, due, waiting, hooked = match(p[2], "^(%d+) (%d+) (%d+) (%-?%d+) ([01]) ([01])$")
    local now = time[1] * 1000 + floor(time[2] / 1000) + manager.clock
    if
        not manager.plain or not queue.plain or queue.generation ~= argv[3] or (due ~= "-1" and due + 0 <= now)
    then
        return other()
    end
    local id = call("ZRANGE", k[4], "0", "0")[1]
    local record = id and call("HGET", k[6], id)
    local flag = record and byte(record, 14)
    if (flag ~= 48 and flag ~= 104) or call("HGET", k[7], id) then
        return other()
    end
    if left then
        local size, fence = match(call("HGET", k[7], left) or "", "^%d+ %d+ %d+ %d+ (%d+) LN %S+ (%d+)$")
        if fence ~= argv[14] then
            return other()
        end
        call("ZREM", k[5], left)
        call("HDEL", k[7], left)
        call("HDEL", k[6], left)
        here, held, gone, messages, bytes = here - 1, held - size, gone + 1, messages - 1, bytes - size
    end
    if flag == 104 then
        local at = find(record, "\\3c", 15, true)
        call("ZREM", k[10], sub(record, at + 1, find(record, "\\0", at, true)) .. id)
    end
    local stamp, number, deadline = format("%d", now), format("%d", history + 1), format("%d", now + argv[7])
    call("ZREM", k[4], id)
    call("ZADD", k[5], deadline, id)
    call("HSET", k[7], id, "1 0 0 0 " .. #record .. " LN " .. slot .. " " .. number)
    local sooner = due == "-1" or deadline + 0 < due + 0
    if left or sooner then
        call("HSET", k[3], "counts",
            format("%d %d %d %s %s %s", here, held, gone, sooner and deadline or due, waiting, hooked))
    end
    call("HSET", k[1], "counts", format("%d %s %d %d", history + 1, seq, messages, bytes), slot,
        format("%s %s %s 0 %s %d:%s13:%s13:%s1:0", sequence, stamp, id, number, #number, number, deadline, stamp))
    return { 0, manager.incarnation, history + 1, number, deadline, now, 0, id, "1 0 0 0", record }
end

redis.register_function("kept_send", send)
redis.register_function("kept_receive", receive)
"""

#: To be loaded before they are called.
LOAD = ("FUNCTION", "LOAD", "REPLACE", LIBRARY)
