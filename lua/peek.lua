-- Show messages without taking them; with a cursor its current or its next one.
-- MS-MQDMPR 3.1.7.1.15 Peek Message, 3.1.7.1.14 Peek Next Message, 3.2.7.2-3
--
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue
-- ARGV[3] generation  of the queue behind the handle
-- ARGV[4] count  messages at most
-- ARGV[5] cursor  "" none; "U" or "R" (Unread, Read) and the id it is on ("" Start, "end" End)
-- ARGV[6] step  current | next; after: continue behind the id of ARGV[5]
-- ARGV[7] waiter  kind, mode, tag to register when nothing is found, "" to register nothing (waiting/waiters)
-- ARGV[8] ticket  "" first registration; its ticket on the next looks; on the last one "leave" and its end from the colon on
-- ARGV[9] filter  which messages match, "" all (matching/filter)
-- RETURNS OK now in ms, then messages (core/message)
-- RETURNS WAITING ticket, ms until the next timer of the queue or -1
-- RETURNS CONTINUE as WAITING, then the id behind which the search goes on
-- RETURNS MATCH_OPTIONS
-- RETURNS QUEUE_NOT_AVAILABLE
-- RETURNS MESSAGE_ALREADY_RECEIVED
-- RETURNS ILLEGAL_CURSOR_ACTION
-- RETURNS OPERATION_CANCELLED
-- RETURNS GET_INHIBITED
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/due"
--- require "core/seek"
--- require "core/position"
--- require "core/message"
--- require "core/record"
--- require "waiting/waiters"
--- require lazy "matching/search"
--- require "core/store"
local reply = context.open(ARGV[7] ~= "")
if reply then return reply end
local q = queue.open(1, 2)
if not q or q.generation ~= ARGV[3] then return context.close({ status.QUEUE_NOT_AVAILABLE }) end
queue.open_parent(q, 2)
due.serve(q)

local function finish(code)
  store.save(q)
  if type(code) == "number" then code = { code } end
  code = context.close(code)
  waiters.ring(q)
  return code
end

if context.missing then return finish(context.missing) end
if queue.has(q, "g") then return finish(status.GET_INHIBITED) end
local cursor, from = string.sub(ARGV[5], 1, 1), string.sub(ARGV[5], 2)
if cursor == "U" and ARGV[6] == "next" and ARGV[8] == "" then return finish(status.ILLEGAL_CURSOR_ACTION) end
reply = { status.OK, "", 0, context.now }

local waiter, entries = waiters.member(ARGV[7], ARGV[9]), {}
local hint, place
if ARGV[7] ~= "" then
  local kind, rest = waiters.handed()
  if ARGV[8] ~= "" and kind == "c" then return finish(tonumber(rest)) end
  if ARGV[8] ~= "" and kind == "m" then
    local lid, state, rec = string.match(rest, "^(%x+) ([%d ]*)\n(.*)$")
    reply[5], reply[6], reply[7] = lid, state, rec
    if record.flag(rec, 8) then reply[8] = "" end -- its body is with it already
    waiters.drop(q, waiter, ARGV[9])
    return finish(reply)
  end
  if kind == "h" then hint = rest end
end

if cursor == "R" and ARGV[6] == "current" then
  if redis.call("ZSCORE", q.a, from) then entries = position.read(q, { from }) end
  if #entries == 0 or seek.expired(entries[1]) then return finish(status.MESSAGE_ALREADY_RECEIVED) end
elseif ARGV[9] ~= "" then
  entries = seek.direct(q, ARGV[9], from, tonumber(ARGV[4]), hint)
  if not entries then
    search.load()
    local found, stopped, code = search.look(q, ARGV[9], from, tonumber(ARGV[4]), hint, false,
      ARGV[5] == "" and waiters.seen(q, waiter, ARGV[8]))
    if code then return finish(code) end
    entries, place = found, stopped
  end
elseif from ~= "end" then
  local count = tonumber(ARGV[4])
  if count > 1 then
    entries = seek.available(q, from, count)
  else
    entries[1] = seek.visible(q, from, false)
  end
end
if #entries > 0 then
  if ARGV[7] ~= "" then waiters.drop(q, waiter, ARGV[9]) end
  seek.fit(q, entries)
  message.all(q, reply, entries)
  return finish(reply)
end
local ticket = ARGV[8]
if waiters.leaving(ticket) then
  if not place then waiters.drop(q, waiter, ARGV[9]) end
elseif ARGV[7] ~= "" then
  ticket = waiters.wait(q, waiter, ticket, ARGV[9], from)
end
return finish({ place and status.CONTINUE or status.WAITING, "", 0, ticket, due.next(q), place })
