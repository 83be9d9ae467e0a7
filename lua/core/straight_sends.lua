--- require "core/context"
--- require "core/chunked"
--- require "core/enqueue"
--- require "core/straight"
-- The short way of a batch of sends (core/straight): messages that at most a correlation id sets apart.
local straight_sends = {}

-- Send them all, while nobody waits. As straight_send.one.
function straight_sends.all()
  if KEYS[11] then return end
  local meta, time, line = straight.read()
  local known, own, stamp, history, seq, messages, bytes, here, held, gone, soon, waiting, marks, locks =
    straight.look(meta, time, "")
  -- A large body is an argument of its own: then there are more of them than messages.
  if not known or waiting == "1" or #ARGV[6] ~= #ARGV - 6 then return nil, meta, time, line end
  local format, byte, find, sub, argv = string.format, string.byte, string.find, string.sub, ARGV
  local most, indexed = own.max_bytes, own.indexed
  context.seq = seq
  local lids = enqueue.lids(argv[6], #argv - 6)
  local fields, places, named, at, last, size = { nil, nil }, { nil, nil }, { nil, nil }, 0, 0, 0
  local hooks = false
  for n = 1, #lids do
    local text, lid = argv[n + 6], lids[n]
    local flag, rec = byte(text), stamp .. text
    local long = #rec
    if (flag ~= 104 and flag ~= 48) or long > most then return nil, meta, time, line end
    size = size + long
    if flag == 104 then
      hooks = true
      if lid <= indexed then
        -- record.member, whose call is a twenty-fifth of what a message takes here.
        local key = find(rec, "\3c", 15, true)
        named[last + 1], named[last + 2] = "0", sub(rec, key + 1, find(rec, "\0", key, true)) .. lid
        last = last + 2
      end
    end
    fields[at + 1], fields[at + 2], places[at + 1], places[at + 2] = lid, rec, "0", lid
    at = at + 2
  end
  chunked.fields(KEYS[6], fields)
  if last > 0 then chunked.scores(KEYS[10], named) end
  if hooks then marks = straight.hook(marks) end
  chunked.scores(KEYS[4], places)
  local ids = table.concat(lids)
  straight.write(format("%d %d %d %d", history, context.seq, messages + #lids, bytes + size),
    format("%s %s - 0 %d %d:%s", ARGV[2], stamp, history, #ids, ids),
    own.brief .. format(" %d %d ", here + #lids, held + size) .. gone .. " " .. soon .. " 0 " .. marks .. locks)
  return { status.OK, known.incarnation, history, ids }
end
