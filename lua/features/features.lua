--- require "core/cache"
--- require "core/position"
--- require "core/record"
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
--- used by admin/schedules, claims/publish, core/enqueue, core/lapse, core/position, core/release and 3 more
-- What messages may ask for beside delivery: one module for each feature, loaded when a message asks for it. A module has
-- a table `hooks` with those of these that it needs. A hook takes the queue, a batch, and the places in the batch of the
-- messages that ask for the feature.
--
--   plan    before the first write of a send: returns the status that refuses it, or asks for queues (context.require)
--   accept  the messages are in the queue, but not available yet
--   arrive  the messages become available. A hook may set batch.fates[n]: "expired" or "delayed", then the message does not;
--           "busy": it is available, but no reader may have it yet
--   leave   the messages stop being available, or are deleted after they were locked (batch.held). batch.locked: they are
--           locked (batch.holder: by this slot); else they are deleted for batch.reason (batch.entries), or moved to another
--           queue of the family (false)
--   unlock  locked messages, batch.entries, are not locked any more, and not available yet
--   move    the messages, batch.entries, are about to arrive in the queue batch.target of the family
--
-- A batch has the columns ids and records, fates, and `wants`: what each message asks for (features.wants). A feature with
-- timers has letters for them, and the hooks plan_due and due (core/lapse).
local features = { list = { nil } }

-- Adding a feature adds a line here, and its module above: its name and module; the fields of a message that ask for it
-- (core/record); `at_end`, that its hook `leave` also acts when a locked message is deleted; the option of a queue that asks
-- for it in the name of all messages (core/queue); the letters of its timers, which core/lapse serves. Hooks run in this
-- order.
features.list = {
  { name = "dedup", module = dedup, fields = { "dedup_key" }, at_end = true },
  { name = "expiry", module = expiry, fields = { "time_to_be_received" }, timers = "e" },
  { name = "delivery_delay", module = delivery_delay, fields = { "delay" }, timers = "d" },
  { name = "identifiers", module = identifiers, fields = { "message_id", "correlation_id", "group_id" },
    option = "group_exclusive" },
  { name = "group_lock", module = group_lock, option = "group_exclusive" },
  { name = "retry", module = retry, timers = "bwsp" },
  { name = "trash", module = trash, fields = { "trash" }, timers = "z" },
  { name = "trail", module = trail, fields = { "trail" }, at_end = true },
}

-- The fields that ask for copies or acknowledgements (features/trace).
features.traced = { "acknowledge", "administration_queue", "dead_letter_queue", "journal" }

-- What a message asks for, by the names of features. Messages with the same keys in their heads ask for the same, so keys
-- are looked at once. traced: it wants copies or acknowledgements (features/trace); late: it may be refused for the time
-- that it has travelled; plain_end: its end needs no look at its record.
function features.wants(rec)
  local keys = record.keys(rec)
  local wants = cache.special[keys]
  if wants then return wants end
  local traced = record.has_any(keys, features.traced)
  wants = { keys = keys, traced = traced, late = record.has_key(keys, "time_to_reach_queue"),
    plain_end = not traced and not string.find(keys, "~", 1, true) }
  for n = 1, #features.list do
    local feature = features.list[n]
    if feature.fields then
      local asked = record.has_any(keys, feature.fields)
      wants[feature.name] = asked
      if asked and feature.at_end then wants.plain_end = false end
    end
  end
  return cache.keep(cache.special, keys, wants)
end

-- A batch of the messages in these columns, of which those in `places` are set apart.
function features.batch(ids, recs, places, wants)
  if not wants then
    wants = {}
    for k = 1, #places do wants[places[k]] = features.wants(recs[places[k]]) end
  end
  return { ids = ids, records = recs, places = places, wants = wants, fates = {}, reason = false, locked = false,
    held = false, holder = false, entries = false, target = false }
end

-- Runs a hook of all features that messages of the batch ask for. Returns the first status that a hook returns.
function features.run(hook, q, batch)
  local wants = batch.wants
  for n = 1, #features.list do
    local feature, places = features.list[n], nil
    if feature.option and q.options[feature.option] and not q.parent then
      places = batch.places
    elseif feature.fields then
      for k = 1, #batch.places do
        local place = batch.places[k]
        if wants[place][feature.name] then
          places = places or { nil }
          places[#places + 1] = place
        end
      end
    end
    local run = places and features.hooks(feature)[hook]
    local code = run and run(q, batch, places)
    if code then return code end
  end
end

-- The hooks of a feature, which is loaded now.
function features.hooks(feature)
  feature.module.load()
  return feature.module.hooks
end

-- Decides for messages that are sent. Inside a transaction their arrival is planned by its commit.
function features.plan(q, recs, wants, transactional)
  local places = features.places(recs, wants)
  local code = features.run("plan", q, features.batch(nil, recs, places, wants))
  if code or transactional then return code end
  local traced, expired = features.entries(nil, recs, places, wants), { nil }
  for k = 1, #places do
    local rec = recs[places[k]]
    if wants[places[k]].expiry and record.is_expired(rec, context.now) then expired[#expired + 1] = { rec = rec } end
  end
  if traced[1] or expired[1] then
    trace.load()
    trace.accepted(q, traced, false)
    trace.plan(q, expired, "receive_timeout")
  end
end

-- The messages of a send are in the queue now.
function features.accept(q, ids, recs, wants, transactional)
  local places = features.places(recs, wants)
  features.run("accept", q, features.batch(ids, recs, places, wants))
  local traced = not transactional and features.entries(ids, recs, places, wants) or {}
  if traced[1] then
    trace.load()
    trace.accepted(q, traced, true)
  end
end

function features.places(recs, wants)
  local places = { nil }
  for n = 1, #recs do
    if wants[n] then places[#places + 1] = n end
  end
  return places
end

-- Those that want to be traced, as features/trace takes them.
function features.entries(ids, recs, places, wants)
  local entries = { nil }
  for k = 1, #places do
    local n = places[k]
    if wants[n].traced then entries[#entries + 1] = { lid = ids and ids[n] or nil, rec = recs[n] } end
  end
  return entries
end

-- Messages become available. True if they have different fates, and all is done.
function features.arrive(q, ids, recs, places)
  local batch = features.batch(ids, recs, places)
  features.run("arrive", q, batch)
  if not next(batch.fates) then return false end
  features.arrive_by_fate(q, ids, batch.fates)
  return true
end

function features.arrive_by_fate(q, ids, fates)
  local available, announced, gone = { nil }, { nil }, { nil }
  for n = 1, #ids do
    local fate = fates[n]
    if fate == "expired" then
      gone[#gone + 1] = ids[n]
    elseif fate ~= "delayed" then
      available[#available + 1] = ids[n]
      if fate == "busy" then
        q.shown = q.shown or { nil }
        q.shown[#q.shown + 1] = ids[n]
      else
        announced[#announced + 1] = ids[n]
      end
    end
  end
  store.make_available(q, available, announced)
  position.delete(q, position.read(q, gone), "receive_timeout")
end

-- Messages are locked. `holder`: the slot of their reader; false if a transaction moves them. Returns what they want, by place.
function features.lock(q, ids, recs, places, holder)
  local batch = features.batch(ids, recs, places)
  batch.locked, batch.holder = true, holder
  features.run("leave", q, batch)
  return batch.wants
end

-- Messages are deleted; those in `held` (a set of places) were locked before. `entries`: the same messages (core/position).
function features.delete(q, ids, recs, places, reason, held, entries)
  local batch = features.batch(ids, recs, places)
  batch.reason, batch.held, batch.entries = reason, held, entries
  features.run("leave", q, batch)
end

-- Runs the hook unlock or move for those of these entries that ask for something. `target`: of a move.
function features.pass(hook, q, entries, target)
  local ids, recs, places = { nil }, { nil }, { nil }
  for n = 1, #entries do
    ids[n], recs[n] = entries[n].lid, entries[n].rec
    if record.is_special(recs[n]) then places[#places + 1] = n end
  end
  if not places[1] then return end
  local batch = features.batch(ids, recs, places)
  batch.entries, batch.target = entries, target
  features.run(hook, q, batch)
end
