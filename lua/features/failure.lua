--- require "core/context"
--- require lazy "core/record"
--- used by admin/redrive, core/transfer, features/copy, features/retry
-- The report of a failure that a message carries once it has failed for good: properties whose names begin with failure_, and
-- the field `reason`, which Message.reason shows. It stands in front of everything else in the head.
--
-- Change together with: a new property is one of `names`, else it stays when the message begins anew. Workers write some of them
-- (mqredis/worker/failed_attempts.py; tests/contract/test_stored_texts.py compares), in the form of mqredis/models/properties.py.
-- What failure.report adds to the reader's part has to fit into `margin` of features/retry_policy. The prefix is REPORT in
-- mqredis/operations/giveback.py, which the console uses, too (mqredis/console/pages/failures.py). failure.remove knows the reasons
-- that retry.poison gives by how they begin. Tests: tests/msmq/test_attempts.py, test_retry.py.
--
-- names: the properties, without failure_; failure.report writes the first three, the message's reader the others
local failure = { names = { "attempts", "time", "reason", "error", "traceback", "worker", "handler" } }

-- Returns a property of a report in the form of a head. `letter`: its type, i for a whole number, d for another one, s for a text
-- (mqredis/models/properties.py).
function failure.property(name, letter, value)
  return "\1failure_" .. name .. "\2" .. letter .. value
end

-- Returns why an entry failed, as its reader said (release.note_verdict), or as the broker knows; nil if there is no reason.
function failure.why(entry)
  return entry.why or entry.lapsed and "the lease lapsed" or nil
end

-- Sets entry.report, a part of a head, to the whole report; it held what the reader has added, or nil. `attempts`: how many
-- there were; `reason`: for the field, nil to leave it out. A field that the message has from before is kept.
function failure.report(entry, attempts, reason)
  local why, seconds = failure.why(entry), context.shown(context.now) / 1000
  local text = failure.property("attempts", "i", string.format("%.0f", attempts))
    .. failure.property("time", "d", string.format("%.3f", seconds))
    .. failure.property("reason", "s", why or "given back") .. (entry.report or "")
  if reason and not record.field(failure.remove(entry.rec), "reason") then
    text = text .. record.fields.reason .. reason .. (why and ": " .. why or "")
  end
  entry.report = text
end

-- Returns a record with this report in place of any older one.
function failure.add(rec, report)
  return record.prepend(failure.remove(rec), report)
end

-- Does the record have a report?
function failure.has_report(rec)
  local head = record.split(rec)
  return string.find(head, "\1failure_attempts\2", 1, true) ~= nil
end

-- Returns a record without a report, for a message that begins anew.
function failure.remove(rec)
  if not failure.has_report(rec) then return rec end
  local head, rest = record.split(rec)
  for n = 1, #failure.names do
    head = string.gsub(head, "\1failure_" .. failure.names[n] .. "\2[^\1\3]*", "")
  end
  head = string.gsub(head, record.fields.reason .. "poison[^\1\3]*", "")
  return string.sub(rec, 1, record.flag_at) .. head .. rest
end
