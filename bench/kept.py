"""The least that keeps the promises: a send, and a lock with the commit of the last, each as one flat function; and the
same of many messages in one call.

They are called with the arguments of our scripts on a manager of ours, and leave and answer what ours do: token and
kept reply, session, generation, counters, timers, waiting readers, size, fence, delivery count, lease. Written
for the plainest message and nothing else; whatever is not so plain they refuse. So what they cost is what the promises
cost, and what our scripts cost beyond them is what serving every other case costs. No product.

Of a batch they use what our scripts do not: the first of a queue are taken off it by rank; where as many states stand
as locks, no message that is available has one; ids that were handed out in one text come back in it.
"""

from __future__ import annotations

#: The scripts in whose place they are called.
FUNCTIONS = {"send_plain": "kept_send", "send": "kept_send", "receive": "kept_receive"}

_HELPERS = """#!lua name=mqkept
local managers, queues = {}, {}
local call, match, format, sub, byte, find, floor, concat
local function ready()
    call, match, format, concat = redis.call, string.match, string.format, table.concat
    sub, byte, find, floor = string.sub, string.byte, string.find, math.floor
end

local function manager_of(text)
    local incarnation, clock, throttled, messages, bytes = match(text, "^5 (%S*) (%S*) (%S*) (%d*) (%d*)$")
    local plain = throttled ~= "1" and messages == "" and bytes == ""
    local known = { incarnation = incarnation, clock = clock + 0, plain = plain }
    managers[text] = known
    return known
end

local function queue_of(text)
    local generation, flags, most, messages, bytes, index = match(text, "^(%d+)|(%a*)|(%d*)|(%d*)|(%d*)|([^|]*)$")
    local plain = flags == "" and messages == "" and bytes == "" and index == "0"
    local known = { generation = generation, most = most + 0, plain = plain, brief = text }
    queues[text] = known
    return known
end

local function other()
    return redis.error_reply("KEPT for plain calls only")
end
"""

#: How each of them begins, as text, since a call of a Lua function costs 300 instructions: the token, what manager and
#: queue ask for, the counts taken apart. ``fence``: of locks beside the line that it commits.
_BEGIN = """
    if not call then
        ready()
    end
    local slot, sequence = argv[1], argv[2]
    local meta = fence and call("HMGET", k[1], "brief", "counts", slot, k[3], "lock:" .. fence)
        or call("HMGET", k[1], "brief", "counts", slot, k[3])
    local time = call("TIME")
    if not meta[3] then
        return other()
    end
    local last = match(meta[3], "^%d+")
    if #sequence < #last or (#sequence == #last and sequence <= last) then
        return other()
    end
    local history, seq, messages, bytes = match(meta[2], "^(%d+) (%S+) (%S+) (%S+)$")
    local brief, here, held, gone, due, waiting, marks, locks =
        match(meta[4], "^(%S+) (%d+) (%d+) (%d+) (%-?%d+) ([01]) (%d+)(.*)$")
    local manager, queue = managers[meta[1]] or manager_of(meta[1]), queues[brief] or queue_of(brief)
    local stamp, micro, number = time[1], time[2], format("%d", history + 1)
    if manager.clock ~= 0 then
        stamp = format("%d", stamp * 1000 + floor(micro / 1000) + manager.clock)
    elseif #micro == 6 then
        stamp = stamp .. sub(micro, 1, 3)
    else
        stamp = stamp .. (#micro == 5 and "0" .. sub(micro, 1, 2) or #micro == 4 and "00" .. sub(micro, 1, 1) or "000")
    end
    if
        not here or not manager.plain or not queue.plain or queue.generation ~= argv[3]
        or (due ~= "-1" and due + 0 <= stamp + 0)
    then
        return other()
    end
"""

_BATCHES = (
    """
-- Makes a small hash or sorted set leave its compact form, which is searched from the front for each of a batch.
local LONG = "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
local digits = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f" }
-- What goes to a command, written over from call to call: no table has to grow.
local fields, places = {}, {}
for n = 1, 511, 2 do
    places[n] = "0"
end
-- Ids that were handed out, by the text of them all.
local handed, texts = {}, 0

-- The ids that a text names; nothing if it names one twice.
local function ids_of(text)
    local ids, seen = {}, {}
    for n = 1, #text, 16 do
        local id = sub(text, n, n + 15)
        if seen[id] then
            return
        end
        seen[id], ids[#ids + 1] = true, id
    end
    return ids
end

local fence -- of what stands beside the line: a batch's

local function send_batch(k, argv)
"""
    + _BEGIN
    + """
    local count, most, levels = #argv - 6, queue.most, { byte(argv[6], 1, -1) }
    if argv[4] ~= "" or waiting == "1" or count > 256 or #levels ~= count then
        return other()
    end
    local ids, size, named, stem, of, low = {}, 0, false, "", nil, seq % 16 + 1
    for n = 1, count do
        local text, level = argv[n + 6], levels[n]
        if low == 16 or level ~= of then
            low, of = low % 16, level
            stem = format("%02x%013x", 55 - level, (seq + n) / 16)
        end
        low = low + 1
        local id, record, flag, at = stem .. digits[low], stamp .. text, byte(text), n + n
        if #record > most then
            return other()
        end
        size = size + #record
        ids[n] = id
        places[at] = id
        fields[at - 1] = id
        fields[at] = record
        if flag == 104 then
            named = true
        elseif flag ~= 48 then
            return other()
        end
    end
    if count < 16 or #fields[2] > 64 then
        call("HSET", k[6], unpack(fields, 1, count + count))
    else
        call("HSET", k[6], LONG, LONG, unpack(fields, 1, count + count))
        call("HDEL", k[6], LONG)
    end
    if named then
        marks = marks == "0" and "1" or marks % 2 == 0 and format("%d", marks + 1) or marks
    end
    if count < 16 then
        call("ZADD", k[4], unpack(places, 1, count + count))
    else
        call("ZADD", k[4], "0", LONG, unpack(places, 1, count + count))
        call("ZREM", k[4], LONG)
    end
    local text = concat(ids)
    call("HSET", k[1], "counts", number .. format(" %d %d %d", seq + count, messages + count, bytes + size), slot,
        sequence .. " " .. stamp .. " - 0 " .. number .. " " .. format("%d:", #text) .. text, k[3],
        brief .. format(" %d %d ", here + count, held + size) .. gone .. " " .. due .. " 0 " .. marks .. locks)
    return { 0, manager.incarnation, history + 1, text }
end

local function receive_batch(k, argv)
    local left, fence = argv[15], argv[14]
"""
    + _BEGIN
    + """
    if
        argv[4] ~= "lock" or (argv[8] and (argv[8] ~= "" or argv[9] ~= "" or argv[11] ~= "")) or argv[16]
        or (left and argv[13] ~= "c") or call("HLEN", k[7]) ~= call("ZCARD", k[5])
    then
        return other()
    end
    local ids = call("ZRANGE", k[4], "0", argv[5] - 1)
    local count = #ids
    if count < 2 or count > 256 then
        return other()
    end
    local leaving, less = nil, 0
    if left then
        local granted, size, lid = match(locks, "^ (%d+),(%d+),%d+,[%d.]+,(%x+)$")
        if granted == fence and lid == left then
            leaving, less, locks = { lid }, size, ""
        else
            local packed = locks == " " .. fence and meta[5]
            local bytes, at = match(packed or "", "^%d+ (%d+) %d+ %S+ ()")
            if not bytes or #packed ~= at + #left - 1 or not find(packed, left, at, true) then
                return other()
            end
            leaving, less, marks, locks = handed[left] or ids_of(left), bytes + 0, marks - 2, ""
        end
    end
    local records, deadline = call("HMGET", k[6], unpack(ids)), format("%d", stamp + argv[7])
    local total, each = 0, #(records[1] or "")
    for n = 1, count do
        local record = records[n]
        local flag, size = record and byte(record, 14), record and #record
        if flag ~= 104 and flag ~= 48 then
            return other()
        end
        if size ~= each then
            each = 0
        end
        total = total + size
    end
    if total > 1048576 then
        return other()
    end
    if left then
        if #leaving > 1 then
            call("HDEL", k[1], "lock:" .. fence)
        end
        call("HDEL", k[6], unpack(leaving))
        local many = #leaving
        here, held, gone, messages, bytes = here - many, held - less, gone + many, messages - many, bytes - less
        handed[left] = nil
    end
    call("ZREMRANGEBYRANK", k[4], "0", count - 1)
    local text = concat(ids)
    if texts == 256 then
        handed, texts = {}, 0
    end
    handed[text], texts = ids, texts + 1
    local sooner = due == "-1" or deadline + 0 < due + 0
    call("HSET", k[1], "counts", number .. " " .. seq .. format(" %d %d", messages, bytes), slot,
        sequence .. " " .. stamp .. " " .. concat(ids, ",") .. " 0 " .. number .. format(" %d:", #number) .. number
            .. "13:" .. deadline .. "13:" .. stamp .. "1:0",
        k[3], brief .. format(" %d %d %d ", here, held, gone) .. (sooner and deadline or due) .. " " .. waiting
            .. format(" %d", marks + 2) .. locks .. " " .. number,
        "lock:" .. number, deadline .. format(" %d %d ", total, each) .. slot .. " " .. text)
    return { 0, manager.incarnation, history + 1, number, deadline, stamp + 0, 0, text, "1 0 0 0", unpack(records) }
end
"""
)

_SINGLY = (
    """
-- How ids begin, by the byte of a priority's digit.
local firsts = { [48] = "07", [49] = "06", [50] = "05", [51] = "04", [52] = "03", [53] = "02", [54] = "01",
    [55] = "00" }

local function send(k, argv)
    if argv[6] then
        return send_batch(k, argv)
    end
"""
    + _BEGIN
    + """
    local text = argv[5]
    local flag, record = byte(text), stamp .. text
    local size = #record
    if waiting == "1" or (flag ~= 48 and flag ~= 104) or size > queue.most then
        return other()
    end
    local id = firsts[byte(argv[4])] .. format("%014x", seq + 1)
    call("HSET", k[6] or k[2], id, record)
    if flag == 104 then
        marks = marks == "0" and "1" or marks % 2 == 0 and format("%d", marks + 1) or marks
    end
    call("ZADD", k[4], "0", id)
    call("HSET", k[1], "counts", number .. format(" %d %d %d", seq + 1, messages + 1, bytes + size), slot,
        sequence .. " " .. stamp .. " - 0 " .. number .. " 16:" .. id,
        k[3], brief .. format(" %d %d ", here + 1, held + size) .. gone .. " " .. due .. " 0 " .. marks .. locks)
    return { 0, manager.incarnation, history + 1, id }
end

local function receive(k, argv)
    local lease, under, left = argv[5], argv[6], argv[7]
    if argv[4] ~= "next" then
        if argv[5] ~= "1" then
            return receive_batch(k, argv)
        end
        lease, left = argv[7], nil
    end
"""
    + _BEGIN
    + """
    if (argv[4] ~= "lock" and not left) or argv[8] then
        return other()
    end
    local id = call("ZRANGE", k[4], "0", "0")[1]
    local record = id and call("HGET", k[6], id)
    local flag = record and byte(record, 14)
    if (flag ~= 48 and flag ~= 104) or call("HGET", k[7], id) then
        return other()
    end
    if left then
        local granted, size, lid = match(locks, "^ (%d+),(%d+),%d+,[%d.]+,(%x+)$")
        if granted ~= under or lid ~= left then
            return other()
        end
        call("HDEL", k[6], left)
        here, held, gone = format("%d", here - 1), format("%d", held - size), format("%d", gone + 1)
        messages, bytes, locks = format("%d", messages - 1), format("%d", bytes - size), ""
    elseif #locks >= 512 then
        return other()
    end
    local deadline = format("%d", stamp + lease)
    call("ZREM", k[4], id)
    local sooner = due == "-1" or deadline + 0 < due + 0
    call("HSET", k[1], "counts", number .. " " .. seq .. " " .. messages .. " " .. bytes, slot,
        sequence .. " " .. stamp .. " " .. id .. " 0 " .. number .. format(" %d:", #number) .. number
            .. "13:" .. deadline .. "13:" .. stamp .. "1:0",
        k[3], brief .. " " .. here .. " " .. held .. " " .. gone .. " " .. (sooner and deadline or due) .. " "
            .. waiting .. " " .. marks .. locks .. " " .. number .. "," .. format("%d", #record) .. "," .. deadline
            .. "," .. slot .. "," .. id)
    return { 0, manager.incarnation, history + 1, number, deadline, stamp + 0, 0, id, "1 0 0 0", record }
end

redis.register_function("kept_send", send)
redis.register_function("kept_receive", receive)
"""
)

LIBRARY = _HELPERS + _BATCHES + _SINGLY
#: To be loaded before they are called.
LOAD = ("FUNCTION", "LOAD", "REPLACE", LIBRARY)
