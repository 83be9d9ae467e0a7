--- used by 29 files: 7 scripts, 4 in admin, 4 in claims, 10 in core, features/copy, transactions/tx_parts, 2 in waiting
-- The state text of a message, field <id> of a queue's hash `states`. A message gets one when it is locked, unless the lock
-- is kept in the queue's header (core/locks), and keeps it when it comes back.
--
--   "deliveries aborts moves last_move_ms size kind owner fence [uncounted]"
--
--   example of a message of 182 bytes that a reader with the slot 12.0 has locked: "1 0 0 0 182 LN 12.0 4711"
--
--   deliveries    how often it was locked to be read; uncounted: so many of them were no attempts (features/retry_policy), nothing
--                 for none
--   aborts        how many transactions that had received it were aborted
--   moves         how often it was moved to another queue; last_move_ms: when last, 0 for never
--   size          bytes of its record and its large body
--   kind          a letter: by whom it is locked, "-" if it is not locked; then letters of flags. Both are named below
--   owner         the reader's slot, the transaction's id or the claim's owner; "-" if not locked
--   fence         the number of the call that locked it; 0 if not locked
--
-- Change together with: mqredis/codec/states.py, which names the kinds; mqredis/operations/doctor/stored.py, which reads the text
-- (tests/contract/test_constants.py and test_stored_texts.py compare both); mqredis/codec/decode.py (`_STATE`), which reads the
-- part that replies have of it (message_state.shown); mqredis/spark/columns.py, which reads its first three parts. Here each
-- pattern names all parts of the text, and some the letters, so a new part changes every function with one. A new kind also needs
-- an answer from each `is_...` and `first` below, in core/position (before_lock, lock, lock_states), in lapse.list_for (core/lapse)
-- for the end of its lease, in release.outcome (core/release), and in `_OPERATIONS` (mqredis/commands/inspection.py).
--
--   by_reader             letter: locked by a reader outside of a transaction
--   received, sent, moved   letters: received from the queue, sent to it, or moved to another one, in an open transaction
--   claimed               letter: claimed by a pipeline (claims/claims)
--   visible               flag: peeks see the message although it is locked
--   plain                 flag: its end needs no look at what the record asks for
--   purged                flag: the queue was purged, so that the message goes when its lock ends
--   plain_reader, plain_send, plain_claim, purged_claim   kinds of a letter and a flag
--   locked_once           what a reply shows of a message that a reader has locked for the first time (message_state.shown)
local message_state = {
  locked_once = "1 0 0 0",
  by_reader = "L", received = "R", sent = "S", moved = "M", claimed = "C",
  visible = "V", plain = "N", purged = "P",
  plain_reader = "LN", plain_send = "SN", plain_claim = "CN", purged_claim = "CP",
}

-- Returns a state as a table with the parts of its text as fields: last_move_ms and fence are texts, the other counts are numbers.
function message_state.parse(text)
  local deliveries, aborts, moves, last_move_ms, size, kind, owner, fence, uncounted =
    string.match(text, "^(%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%d+) ?(%d*)$")
  return { deliveries = tonumber(deliveries), aborts = tonumber(aborts), moves = tonumber(moves),
    last_move_ms = last_move_ms, size = tonumber(size), kind = kind, owner = owner, fence = fence,
    uncounted = tonumber(uncounted) or 0 }
end

function message_state.is_locked(state)
  return state.kind ~= "-"
end

-- Is the message locked by a reader outside a transaction?
function message_state.is_reader_lock(state)
  return string.sub(state.kind, 1, 1) == message_state.by_reader
end

-- Was the message received in a transaction that is open?
function message_state.is_received(state)
  return string.sub(state.kind, 1, 1) == message_state.received
end

-- Is the message locked by a reader, in a transaction or not?
function message_state.is_read(state)
  return string.find(state.kind, "^[LR]") ~= nil
end

-- Does the lock count as a delivery? That of a message which a transaction sends or moves does not.
function message_state.is_delivered(state)
  return string.find(state.kind, "^[LRC]") ~= nil
end

-- Was the message sent in a transaction that is open?
function message_state.is_sent(state)
  return string.sub(state.kind, 1, 1) == message_state.sent
end

-- Is the message claimed by a pipeline (claims/claims)?
function message_state.is_claimed(state)
  return string.sub(state.kind, 1, 1) == message_state.claimed
end

-- Was the queue purged while the message was locked? It goes when its lock ends.
function message_state.is_purged(state)
  return string.find(state.kind, message_state.purged, 2, true) ~= nil
end

-- May peeks see the message although it is locked?
function message_state.is_visible(state)
  return string.find(state.kind, message_state.visible, 2, true) ~= nil
end

-- Returns the member of q.index for a locked message that peeks see; other members of q.index: matching/index.
function message_state.visible_member(id)
  return "v" .. id
end

-- Marks a locked message as purged: no peek sees it any more, and its end needs a look at it.
function message_state.purge(state)
  state.kind = string.sub(state.kind, 1, 1) .. message_state.purged
end

-- Takes the lock out of a state.
function message_state.free(state)
  state.kind, state.owner, state.fence = "-", "-", 0
end

-- Returns the state of a message of `size` bytes that was never locked.
function message_state.new(size)
  return { deliveries = 0, aborts = 0, moves = 0, last_move_ms = 0, size = size, kind = "-", owner = "-",
    fence = 0, uncounted = 0 }
end

-- Returns the state of a copy of the message, of `size` bytes, which is not locked.
function message_state.copy(state, size)
  local made = message_state.new(size)
  made.deliveries, made.aborts, made.moves = state.deliveries, state.aborts, state.moves
  made.last_move_ms, made.uncounted = state.last_move_ms, state.uncounted
  return made
end

-- Returns the text of a state.
function message_state.format(state)
  return message_state.counts(state) .. " " .. state.size .. " " .. state.kind .. " " .. state.owner .. " "
    .. state.fence .. message_state.uncounted(state)
end

-- Returns the last part of the text, with the space in front of it.
function message_state.uncounted(state)
  return state.uncounted > 0 and " " .. state.uncounted or ""
end

-- Returns the first four parts of the text.
function message_state.counts(state)
  return state.deliveries .. " " .. state.aborts .. " " .. state.moves .. " " .. state.last_move_ms
end

-- Returns what a reply shows a reader: "deliveries aborts moves last_move_ms [uncounted]".
function message_state.shown(state)
  return message_state.counts(state) .. message_state.uncounted(state)
end

-- Returns the text of a message of `size` bytes that is locked for the first time. If a transaction sends or moves it, that
-- is no delivery.
function message_state.first(size, kind, owner, fence)
  local letter = string.sub(kind, 1, 1)
  local delivered = (letter == message_state.sent or letter == message_state.moved) and "0 0 0 0 " or "1 0 0 0 "
  return delivered .. string.format("%d ", size) .. kind .. " " .. owner .. " " .. fence
end

-- Returns `text`, of a message that is not locked, with a new lock, which counts as a delivery.
function message_state.again(text, kind, owner, fence)
  local deliveries, rest, uncounted = string.match(text, "^(%d+) (%d+ %d+ %d+ %d+ )%S+ %S+ %d+(.*)$")
  return string.format("%d ", deliveries + 1) .. rest .. kind .. " " .. owner .. " " .. fence .. uncounted
end

-- Returns the size in bytes, as text, of a message that is locked by a reader under `fence` and whose end needs no look at its
-- record; false if `text` is any other state, or none.
function message_state.plain_lock(text, fence)
  local size, granted = string.match(text or "", "^%d+ %d+ %d+ %d+ (%d+) LN %S+ (%d+)$")
  return granted == fence and size
end

-- Returns the size in bytes, as text, of a message of a claim whose end needs no look at its record; nil if `text` is any other
-- state.
function message_state.plain_claim_size(text)
  return string.match(text, "^%d+ %d+ %d+ %d+ (%d+) CN ")
end

-- Returns with what the text of a message ends that is locked in this way, and whose end needs no look at its record.
-- `letter`: the first one of the kind.
function message_state.plain_end(letter, owner, fence)
  return letter .. message_state.plain .. " " .. owner .. " " .. fence
end

-- Returns the size in bytes.
function message_state.size(text)
  return tonumber(string.match(text, "^%d+ %d+ %d+ %d+ (%d+)"))
end

-- Returns `text` of a message that was received in a transaction, after its abort.
function message_state.aborted(text)
  local deliveries, aborts, rest, uncounted = string.match(text, "^(%d+) (%d+) (%d+ %d+ %d+) %S+ %S+ %d+(.*)$")
  return string.format("%s %d %s - - 0", deliveries, aborts + 1, rest) .. uncounted
end
