--- require "core/cache"
--- require "core/position"
--- require "core/removal"
--- require lazy "core/record"
--- require "core/store"
--- require lazy "features/dedup"
--- require lazy "features/delivery_delay"
--- require lazy "features/expiry"
--- require lazy "features/group_lock"
--- require lazy "features/identifiers"
--- require lazy "features/retry"
--- require lazy "features/trace"
--- require lazy "features/trail"
--- require lazy "features/trash"
--- used by admin/schedules, claims/publish, core/enqueue, core/lapse, core/position, core/release, core/removal, core/transfer,
---   publish, send
-- Calls the features of messages: what a message asks for with a field of its head, or a queue with an option for all
-- of its messages. Plain messages, which ask for nothing, never come here.
--
-- A feature is a module with a table `hooks` of the functions that it needs, which features.run calls as hook(q, batch,
-- places). `batch` is of features.batch, `places` the places in it of the messages that ask for the feature. A hook is called when
-- the messages
--
--   plan    are about to be sent, before the first write: it returns the status that refuses them, or nil, or asks for queues
--           (context.require)
--   accept  are in the queue, but not available yet
--   arrive  become available. The hook may set batch.fates[place]: "expired" and "delayed" keep the message from it, "busy"
--           makes it available although no reader may have it yet
--   leave   stop being available, or are deleted while locked: batch.locked if they are locked; else batch.reason says why
--           they are deleted, false if they move to another queue of the family
--   unlock  are not locked any more, and not available yet (batch.entries)
--   move    are about to arrive in batch.target, a queue of the same family (batch.entries)
--
-- A feature with timers has two more hooks, which core/lapse calls: plan_due(q, ids, letter) asks for queues, and returns the
-- entries (core/position) for due(q, entries, letter), which writes.
local features = {}

-- To add a feature, add a line here, and its module above. tests/contract/test_features.py compares the names of hooks, fields and
-- timers with the text above, with copy.requests, with core/timers and with the fields that clients mark as special. A field that
-- a transaction's commit or a pipeline has to heed is also looked at in transactions/tx_parts and claims/publish, which take
-- shorter ways.
--
--   name, module  it is required as lazy, so that it is loaded when the first message asks for it
--   fields        the fields of a head that ask for it (core/record)
--   option        the option of a queue that asks for it in the name of all messages (core/queue). Only special messages come here
--                 (core/record), so they must be made special as they come in: enqueue.makes_special names the places. Not in
--                 subqueues: they share the option of their queue, but their groups take no turns (queue.set_parent)
--   at_end        its hook `leave` also acts when a locked message is deleted, so such ends have to read the record
--   timers        the kinds of timers that it serves (timers.letters in core/timers)
--
-- Hooks run in this order. group_lock reads the index that identifiers writes.
features.list = {
  { name = "dedup", module = dedup, fields = { "dedup_key" }, at_end = true },
  { name = "expiry", module = expiry, fields = { "time_to_be_received" }, timers = { "expiry" } },
  { name = "delivery_delay", module = delivery_delay, fields = { "delay" }, timers = { "delay" } },
  { name = "identifiers", module = identifiers, fields = { "message_id", "correlation_id", "group_id" },
    option = "group_exclusive" },
  { name = "group_lock", module = group_lock, option = "group_exclusive" },
  { name = "retry", module = retry, timers = { "rest", "isolated", "rest_isolated", "poison" } },
  { name = "trash", module = trash, fields = { "trash" }, timers = { "trash" } },
  { name = "trail", module = trail, fields = { "trail" }, at_end = true },
}

-- The fields that ask for copies or acknowledgements (features/trace).
features.traced = { "acknowledge", "administration_queue", "dead_letter_queue", "journal" }

-- Messages and batches ------------------------------------------------------------------------------------------------

-- Returns what a message asks for, as a table that must not be changed:
--
--   names      the names of the features
--   keys       the keys of its head
--   traced     it wants copies or acknowledgements
--   late       it may be refused for the time that it has travelled
--   plain_end  its end needs no look at its record
--
-- A field that is only kept (record.suspend) asks for nothing: record.keys has its "~" and not its key.
--
-- Messages with the same keys in their heads ask for the same, so the table is kept by the keys.
function features.wants(rec)
  local keys = record.keys(rec)
  local wants = cache.special[keys]
  if wants then return wants end
  local traced = record.has_any(keys, features.traced)
  wants = { names = { nil }, keys = keys, traced = traced, late = record.has_key(keys, "time_to_reach_queue"),
    plain_end = not traced }
  for n = 1, #features.list do
    local feature = features.list[n]
    if feature.fields and record.has_any(keys, feature.fields) then
      wants.names[#wants.names + 1] = feature.name
      if feature.at_end then wants.plain_end = false end
    end
  end
  return cache.keep(cache.special, keys, wants)
end

-- Returns a batch without messages, for columns of which some ask for something; features.note adds these. `ids` is nil before a
-- send is accepted. The fields:
--
--   ids, records  the columns (core/position)
--   places        of the messages that ask for something, in rising order
--   wants         by place, what each of them asks for (features.wants)
--   by_feature    by the name of a feature, the places of the messages that ask for it
--   traced        the places of those that want copies or acknowledgements
--   fates         by place, as the hook `arrive` sets them
--
-- The others are nil here, and set for the hooks that need them. locked, holder: the messages are locked now, `holder` by this
-- slot; reason, held, entries: they are deleted, those in the set `held` were locked before; target: the queue that they move to.
function features.batch(ids, recs)
  return { ids = ids, records = recs, places = { nil }, wants = { nil }, by_feature = {}, traced = { nil }, fates = {},
    reason = nil, locked = nil, held = nil, holder = nil, entries = nil, target = nil }
end

-- Adds to a batch the message at this place of its columns, which asks for something.
function features.note(batch, place)
  local wants, by_feature = features.wants(batch.records[place]), batch.by_feature
  batch.wants[place] = wants
  batch.places[#batch.places + 1] = place
  for n = 1, #wants.names do
    local places = by_feature[wants.names[n]] or { nil }
    places[#places + 1] = place
    by_feature[wants.names[n]] = places
  end
  if wants.traced then batch.traced[#batch.traced + 1] = place end
end

-- Calls this hook of each feature that a message of the batch asks for. Returns the first status that a hook returns,
-- or nil.
function features.run(hook, q, batch)
  local list, by_feature, options = features.list, batch.by_feature, not q.parent and q.options or {}
  for n = 1, #list do
    local feature = list[n]
    local places = options[feature.option] and batch.places or by_feature[feature.name]
    if places then
      local run = feature.module.hooks[hook]
      local code = run and run(q, batch, places)
      if code then return code end
    end
  end
end

-- Sending -------------------------------------------------------------------------------------------------------------

-- Decides for messages that are about to be sent. Returns the status that refuses them, or nil; context.missing may
-- name queues then. `transactional`: they are sent in a transaction, whose commit plans their arrival.
function features.plan(q, batch, transactional)
  local code = features.run("plan", q, batch)
  if code or transactional or not batch.traced[1] then return code end
  local traced = features.traced_entries(batch)
  trace.plan_accepted(traced)
  trace.expiring(q, traced)
end

-- Tells the features that the messages of a send are in the queue now, with these ids. Other arguments as of features.plan.
function features.accept(q, batch, ids, transactional)
  batch.ids = ids
  features.run("accept", q, batch)
  if transactional or not batch.traced[1] then return end
  trace.accepted(q, features.traced_entries(batch))
end

-- Returns the messages that want to be traced as entries (core/position), without ids before the send is accepted.
function features.traced_entries(batch)
  local entries = { nil }
  for k = 1, #batch.traced do
    local place = batch.traced[k]
    entries[k] = { id = batch.ids and batch.ids[place] or nil, rec = batch.records[place] }
  end
  return entries
end

-- Availability --------------------------------------------------------------------------------------------------------

-- Tells the features that messages become available. Returns true if this has made all messages of the columns available, or has
-- done with them what their fates say; false if that is left to the caller.
function features.arrive(q, batch)
  features.run("arrive", q, batch)
  if not next(batch.fates) then return false end
  features.arrive_by_fate(q, batch.ids, batch.fates)
  return true
end

-- Makes available those messages whose fate allows it, and deletes the expired ones. What these leave behind was planned by the
-- script that makes them arrive: for a send by features.plan, for all others by trace.expiring. Messages of busy groups go to
-- q.arrived_busy: of waiting readers only peeks are notified of them (waiting/notify).
function features.arrive_by_fate(q, ids, fates)
  local available, announced, gone = { nil }, { nil }, { nil }
  for n = 1, #ids do
    local fate = fates[n]
    if fate == "expired" then
      gone[#gone + 1] = ids[n]
    elseif fate ~= "delayed" then
      available[#available + 1] = ids[n]
      if fate == "busy" then
        q.arrived_busy = q.arrived_busy or { nil }
        q.arrived_busy[#q.arrived_busy + 1] = ids[n]
      else
        announced[#announced + 1] = ids[n]
      end
    end
  end
  store.make_available(q, available, announced)
  removal.delete(q, position.read(q, gone), "receive_timeout")
end

-- Tells the features that messages are locked now. `holder`: the slot of their reader; false if a transaction moves them.
function features.lock(q, batch, holder)
  batch.locked, batch.holder = true, holder
  features.run("leave", q, batch)
end

-- Tells the features that messages are deleted. `reason`: why; false if they go to another queue of the family. `held`:
-- the set of the places of those that were locked. `entries`: the same messages (core/position).
function features.delete(q, batch, reason, held, entries)
  batch.reason, batch.held, batch.entries = reason, held, entries
  features.run("leave", q, batch)
end

-- Calls the hook "unlock" or "move" for those of these entries that ask for something. `target`: the queue that they
-- move to.
function features.pass(hook, q, entries, target)
  local batch = features.batch(position.columns_of(entries))
  for n = 1, #entries do
    if record.is_special(entries[n].rec) then features.note(batch, n) end
  end
  if not batch.places[1] then return end
  batch.entries, batch.target = entries, target
  features.run(hook, q, batch)
end
