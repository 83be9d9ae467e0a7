-- Carry out an action of an operator on available or delayed messages of a queue: those with these ids, or all that
-- match. One call changes some hundred messages; a message that came after the first call is not touched.
-- docs/operating.md
--
-- CALLERS bulk in mqredis/commands/bulk.py
-- KEYS message
-- QUEUE[1] the queue
-- QUEUE[2+] the parent of a subqueue; the target of a move; queues of their dead letters, copies and acknowledgements
-- KEYS the key of a token, if ARGV[3] is not "" (admin/operator)
-- ARGV[3] token  as in admin/operator
-- ARGV[4] entry  as in admin/operator
-- ARGV[5] action  count | delete | trash | restore | move | redrive | due | priority
-- ARGV[6] value  trash: how long in ms; move: encoded name of the target; redrive: the same or ""; due: ms since the epoch,
--   or "+" and ms from now; priority: a digit; else ""
-- ARGV[7] states  a available, d delayed, da both
-- ARGV[8] most  messages to change, "" any number
-- ARGV[9] cursor  "" on the first call, then what CONTINUE said
-- ARGV[10] filter  which messages match, "" all (matching/filter)
-- ARGV[11+] id  lookup ids, in place of a search
-- RETURNS OK messages changed or counted, locked ones among the ids, missing ones among the ids: by all calls together
-- RETURNS CONTINUE as OK, then the cursor
-- RETURNS QUEUE_NOT_FOUND
-- RETURNS QUEUE_NOT_AVAILABLE the target of a move does not exist
-- RETURNS KEYS_CHANGED encoded names of queues that KEYS must bring as well
-- FLAGS allow-oom
--- require "core/context"
--- require "core/queue"
--- require "core/position"
--- require "core/record"
--- require "core/seek"
--- require "core/store"
--- require "core/timers"
--- require lazy "core/transfer"
--- require "admin/operator"
--- require lazy "admin/redrive"
--- require lazy "admin/rewrite"
--- require lazy "admin/scheduled"
--- require lazy "features/other_queues"
--- require lazy "features/trash"
--- require lazy "matching/search"
--- require "waiting/waiters"
local action, value, states, most, cursor = ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8]), ARGV[9]
local filter_text, lookup_ids = ARGV[10] ~= "" and ARGV[10] or "\0", { unpack(ARGV, 11) }
local page = 256
local reply = context.open()
if reply then return reply end
reply = operator.repeated()
if reply then return reply end
local q = queue.open(1, 2)
if not q then return context.close({ status.QUEUE_NOT_FOUND }) end
queue.open_parent(q, 2)
timers.serve(q)

local function finish(code)
  store.save(q)
  if code[1] == status.KEYS_CHANGED then code = context.close(code) else code = operator.close(code) end
  waiters.notify(q)
  return code
end

if context.missing then return finish(context.missing) end

-- decide -----------------------------------------------------------------------------------------
-- What the cursor keeps from call to call. newest: messages with a later SequentialID came after the first call; due: the new
-- time of the action due; logged: id of the entry in the log; phase: d while delayed messages are looked at, then a; place:
-- where this call goes on.
local changed, locked, missing, newest, due, logged, phase, place
if cursor == "" then
  changed, locked, missing = 0, 0, 0
  newest, phase, place = string.format("%014x", context.seq), string.sub(states, 1, 1), ""
  due = action == "due" and (string.match(value, "^%+") and context.now + value or value + context.lead) or 0
else
  changed, locked, missing, newest, due, logged, phase, place =
    string.match(cursor, "^(%d+),(%d+),(%d+),(%x+),(%d+),(%x*),(.),(.*)$")
  changed, locked, missing, due = changed + 0, locked + 0, missing + 0, due + 0
end
-- found: the messages of this call; dues: when those that are delayed become available; more: where the next call goes on,
-- nil if this is the last one.
local found, more, dues = {}, nil, {}
if lookup_ids[1] then
  local ids, known = { nil }, {} -- a message that is named twice is one message
  for n = 1, #lookup_ids do
    local id = lookup_ids[n]
    if not known[id] then ids[#ids + 1], known[id] = id, true end
  end
  local entries = position.read(q, ids)
  for n = 1, #entries do
    local e, id = entries[n], entries[n].lid
    local available = redis.call("ZSCORE", q.available, id)
    local time = not available and timers.delayed_until(q, id)
    if available and string.find(states, "a", 1, true) or time and string.find(states, "d", 1, true) then
      found[#found + 1], dues[id] = e, time
    elseif not available and not time then
      locked = locked + 1
    else
      missing = missing + 1
    end
  end
  missing = missing + #ids - #entries
else
  -- Delayed messages first, then available ones.
  local count = most and math.min(page, most - changed) or page
  if phase == "d" then
    local times
    scheduled.load()
    found, more, times = scheduled.look(q, filter_text, place, count)
    for n = 1, #found do dues[found[n].lid] = times[n] end
    if not more and states ~= "d" then phase, place, more = "a", "", "" end
  end
  if phase == "a" and not found[1] then
    search.load()
    found, more = search.look(q, filter_text, place, count)
    if found[1] then
      more = found[#found].lid
      -- A search that has found something does not say whether it is complete.
      if #found < count then
        local rest, on = search.look(q, filter_text, more, 1)
        if not rest[1] then more = on end
      end
    end
  end
end

local entries = {}
for n = 1, #found do
  local e = found[n]
  local time = tonumber(dues[e.lid])
  local same = action == "due" and (time == due or not time and due <= context.now)
    or action == "priority" and record.priority(e.rec) == value
  if not same and string.sub(e.lid, 3) <= newest and not seek.expired(e) then entries[#entries + 1] = e end
end

local target, targets, groups
if action == "delete" then
  position.may_leave(q, entries, "queue_purged")
elseif action == "trash" or action == "move" then
  other_queues.load()
  local home = q.parent or q
  local to = action == "move" and value or queue.name(home) .. "%3Btrash"
  target = other_queues.find(to, action == "trash")
  if not target and not context.missing then return finish({ status.QUEUE_NOT_AVAILABLE }) end
  if target and target ~= home then queue.set_parent(target, home) end
elseif action == "restore" then
  trash.load()
  groups = trash.plan(q.parent or q, entries)
elseif action == "redrive" then
  redrive.load()
  targets = redrive.plan(q, entries, value)
end
operator.plan()
if context.missing then return finish(context.missing) end

-- apply ------------------------------------------------------------------------------------------
local function rewritten()
  rewrite.load()
  local recs, ids = {}, {}
  for n = 1, #entries do
    local e = entries[n]
    recs[n] = action == "due" and rewrite.due(e, due) or rewrite.priority(e, value)
    ids[n] = action == "due" and e.lid or rewrite.id(e, value)
  end
  rewrite.apply(q, entries, recs, ids)
end

local done = #entries
if action == "delete" then
  position.delete(q, entries, "queue_purged")
elseif target and target ~= q and done > 0 then
  transfer.load()
  trash.load()
  transfer.move(q, target, entries, action == "trash" and trash.value(q, value) or nil)
elseif groups then
  trash.restore(q, groups)
elseif targets then
  done = redrive.apply(q, entries, targets)
elseif (action == "due" or action == "priority") and done > 0 then
  rewritten()
end
changed = changed + done
if most and changed >= most then more = nil end
if done > 0 or cursor == "" or not more then logged = operator.log(changed, not more, logged) end
reply = { more and status.CONTINUE or status.OK, "", 0, changed, locked, missing }
if more then
  reply[7] = string.format("%d,%d,%d,%s,%.0f,%s,%s,%s", changed, locked, missing, newest, due, logged or "", phase,
    more)
end
return finish(reply)
