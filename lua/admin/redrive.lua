--- require "core/context"
--- require "core/position"
--- require "core/queue"
--- require lazy "features/copy"
--- require lazy "features/other_queues"
--- require lazy "features/trace"
--- used by bulk, redrive
-- Dead letters, journal copies and poison messages go back to the queue they came from, as new messages. What a message
-- asked for is in force again, and its times count anew; only its dedup key is not taken a second time.
local redrive = {}

-- Decide: the queue that each of these available messages goes to, by place; false for one that stays. `name`: the encoded
-- name of another queue than the original ones, "" none. context.missing names queues that KEYS must bring as well.
function redrive.plan(q, entries, name)
  local targets = {}
  copy.load()
  other_queues.load()
  trace.load()
  for n = 1, #entries do
    local origin = copy.origin(q, entries[n])
    local wanted = name ~= "" and name or origin and other_queues.encode(string.match(origin, "^[^;]*"))
    local to = wanted and other_queues.find(wanted)
    if to then -- one that expires at once leaves traces there
      local rec = context.now_text .. "1" .. (copy.original(to, entries[n])) .. "\0"
      trace.expiring(to, { { lid = entries[n].lid, rec = rec } })
    end
    targets[n] = to and to ~= q and not to.options.put_inhibited and not to.options.topic and to or false
  end
  return targets
end

-- Apply: sends them there. Returns how many went; one for which its queue has no room stays.
function redrive.apply(q, entries, targets)
  local went = 0
  for n = 1, #entries do
    local to = targets[n]
    if to then
      -- It leaves one queue of the manager for another, so the manager's quota has room for it; out of a subqueue that of
      -- its parent, too.
      local size, home = position.size(q, entries[n]), q.parent == to and not q.apart and to or {}
      if home == to then queue.read_subqueue_totals(to) end
      context.messages, context.bytes = context.messages - 1, context.bytes - size
      home.sub_messages, home.sub_bytes = (home.sub_messages or 0) - 1, (home.sub_bytes or 0) - size
      local lid = copy.revive(q, to, entries[n])
      context.messages, context.bytes = context.messages + 1, context.bytes + size
      home.sub_messages, home.sub_bytes = home.sub_messages + 1, home.sub_bytes + size
      if lid then
        went = went + 1
        position.delete(q, { entries[n] }, "redriven")
      end
    end
  end
  return went
end
