--- require "lib/frame"
--- require lazy "lib/queue"
--- require lazy "lib/quota"
--- require lazy "lib/side"
--- require lazy "lib/put"
--- require lazy "lib/tx"
--- require lazy "lib/record"
--- require "lib/subscription"
--- require lazy "lib/trace"
-- Topics: a message sent to one is put into every queue that subscribed to it; the topic keeps none.
-- A subscription is a field of the topic's hash: "sub:" and the queue's encoded name (lib/subscription).
local topic = {}

-- Decide: which messages go where. Returns a refusal if one of the queues refuses: a durable subscriber misses nothing,
-- so all get the messages or none does. A subscriber that was deleted, or that takes no messages of this kind, is
-- passed over.
function topic.plan(q, entries, t)
  local fields = redis.call("HGETALL", q.q)
  local total = 0
  q.plans = {}
  side.load()
  for n = 1, #fields, 2 do
    local name = string.match(fields[n], "^sub:(.*)$")
    local to = name and side.find(name)
    if to and (t ~= nil) == queue.is(to, "t") then
      local picked, bytes = topic.pick(entries, fields[n + 1])
      if #picked > 0 then
        local code = queue.is(to, "p") and status.PUT_INHIBITED or quota.refuses(to, #picked, bytes)
        if code then return code end
        total = total + #picked
        if t and t.count + total > tx.most then return status.TRANSACTION_TOO_LARGE end
        q.plans[#q.plans + 1] = { to = to, entries = picked }
        if not t and topic.hooked(picked) then
          trace.load()
          trace.accepted(to, picked, false)
          trace.expiring(to, picked)
        end
      end
    end
  end
end

-- The messages that a subscription wants, as entries of their own, and their bytes.
function topic.pick(entries, text)
  local wants, picked, bytes = subscription.open(text), {}, 0
  for n = 1, #entries do
    local e = entries[n]
    if wants(e.rec) then
      local rec = e.rec
      local at = record.flag(rec, 1) and string.find(rec, "\3k", 15, true)
      -- One dedup key guards the topic; the copies must not carry it into the queues.
      if at and at < string.find(rec, "\0", 15, true) then
        rec = string.sub(rec, 1, at) .. "~" .. string.sub(rec, at + 1)
      end
      -- One message id for all copies, as the publisher is told it: 22 bytes more, once the id is known.
      local size = #rec + #e.large + (record.field(rec, "m") and 0 or 22)
      picked[#picked + 1] = { rec = rec, large = e.large, size = size, priority = e.priority, of = e }
      bytes = bytes + size
    end
  end
  return picked, bytes
end

function topic.hooked(entries)
  for n = 1, #entries do
    if record.flag(entries[n].rec, 1) then return true end
  end
  return false
end

-- Apply. The copies have ids of their own, behind those that the publisher is told.
function topic.deliver(q, t)
  if t and #q.plans == 0 then tx.save(t) end
  for n = 1, #q.plans do
    local plan = q.plans[n]
    for k = 1, #plan.entries do
      local e = plan.entries[k]
      if not record.field(e.rec, "m") then
        local rec = record.set_flag(e.rec, 1)
        e.rec = string.sub(rec, 1, 14) .. "\3msmq-" .. e.of.lid .. string.sub(rec, 15)
      end
    end
    put.number(plan.entries, t)
    put.store(plan.to, plan.entries, t, topic.hooked(plan.entries))
  end
end
