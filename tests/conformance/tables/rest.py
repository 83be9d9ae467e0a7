"""Waits, moves, quotas, timers, transactions, queues and handles."""

MOVES = """
move-1 | Q ABC | there and back: the old place, the same id
  q.move(B, into)
  read(s) -> B
  s.peek().lookup_id == B -> True
  s.move(B, home)
  read(q) -> ABC

move-2 | Q ABC | the place in the target is that of the id, not of the move
  q.move(C, into)
  q.move(A, into)
  q.move(B, into)
  read(s) -> ABC

move-3 | Q A + QQ | to a queue that is not related
  q.move(A, qm.open("qq")) -> ST_BAD_PARAM
  q.move(A, q) -> ST_BAD_PARAM
  read(q) -> A

move-4 | Q A | a target that may not be moved to
  q.move(A, qm.open("q;s", Access.RECEIVE)) -> BAD_HANDLE
  q.move(A, qm.open("q;s", Access.PEEK)) -> BAD_HANDLE
  into.close()
  q.move(A, into) -> BAD_HANDLE
  read(q) -> A

move-5 | Q A | a source that may not receive
  v = qm.open("q", Access.PEEK)
  v.move(A, into) -> DENIED
  into.move(A, home) -> DENIED
  read(q) -> A

move-6 | T ABC | in a transaction: seen nowhere, then in the target, woken there
  t.move(B, into, transaction=x1)
  read(t) -> AC
  read(s) -> -
  w := s.receive(LONG)
  x1.commit()
  w -> B
  read(t) -> AC

move-7 | T ABC | in a transaction that aborts: the old place, and a reader there is served
  t.move(A, into, transaction=x1)
  t.move(B, into, transaction=x1)
  t.move(C, into, transaction=x1)
  w := o.receive(LONG)
  x1.abort()
  w -> A
  read(t) -> BC
  read(s) -> -

move-8 | T A | locked by another transaction, or by the same
  t.receive(0, transaction=x1) -> A
  t.move(A, into, transaction=x2) -> LOCKED_TX
  t.move(A, into, transaction=x1) -> LOCKED_TX
  t.move(A, into) -> LOCKED_TX
  x1.abort()
  t.move(A, into, transaction=x2)
  x2.commit()
  read(s) -> A

move-9 | Q A | a plain queue takes no moves in transactions
  q.move(A, into, transaction=x1) -> TX_USAGE
  read(q) -> A

move-10 | T A | an uncommitted send cannot be moved
  put(t, "B", transaction=x1)
  t.move(B, into) -> LOCKED_TX
  x1.commit()
  t.move(B, into)
  read(s) -> B

move-11 | Q AB | between two subqueues
  q.move(A, into)
  r = qm.open("q;r", Access.ALL)
  s.move(A, r)
  read(s) -> -
  r.receive(0) -> A

move-12 | Q AB | a subqueue that is locked: purge of the subqueue only
  q.move(A, into)
  s.purge() -> 1
  read(q) -> B

move-13 | Q A | the move count goes up with each move, the abort count is forgotten
  q.move(A, into)
  s.peek().move_count -> 1
  s.move(A, home)
  q.peek().move_count -> 2
  q.peek().last_moved_at is not None -> True

move-14 | Q | subqueues: no sends, no subqueue of a subqueue, none that is created
  qm.open("q;s", Access.SEND) -> BAD_FORMAT
  qm.create_queue("q;s") -> BAD_PATH
  qm.open("q;s;t") -> BAD_PATH
  qm.open("nowhere;s") -> NO_QUEUE
  s.send(b"X") -> DENIED

move-15 | Q A | deleted with its queue
  q.move(A, into)
  read(s) -> A
  qm.delete_queue("q") -> 1
  s.receive() -> NOT_AVAIL
  into.name -> q;s
  q.move(A, into) -> NOT_AVAIL
"""

WAITS = """
wait-1 | Q | two receivers are served in the order in which they came
  w1 := q.receive(LONG)
  w2 := o.receive(LONG)
  put(q, "AB")
  w1 -> A
  w2 -> B

wait-2 | Q A | a rejected read that was given back serves who waits
  l1 = q.lock()
  w1 := o.peek(LONG)
  w2 := o.receive(LONG)
  l1.abort()
  w1 -> A
  w2 -> A
  state("q") -> 0/0/0

wait-3 | Q | a purge serves nobody, a send after it does
  w1 := q.receive(LONG)
  o.purge() -> 0
  waits(w1) -> yes
  put(o, "A")
  w1 -> A

wait-4 | T | an uncommitted send serves nobody, nor does its abort
  w1 := t.receive(LONG)
  put(t, "A", transaction=x1)
  waits(w1) -> yes
  x1.abort()
  waits(w1) -> yes
  put(t, "B")
  w1 -> B

wait-5 | T | a wait in a transaction locks what it gets
  w1 := t.receive(LONG, transaction=x1)
  put(t, "A")
  w1 -> A
  state("t") -> 0/1/1
  x1.commit()
  state("t") -> 0/0/0

wait-6 | Q | only the wait with the tag is cancelled, and only destructive ones have one
  w1 := q.receive(LONG, tag="one")
  w2 := q.receive(LONG)
  w3 := q.peek(LONG)
  q.cancel("two") -> ST_NOT_FOUND
  o.cancel("one")
  w1 -> CANCELLED
  waits(w2) -> yes
  waits(w3) -> yes
  q.cancel("one") -> ST_NOT_FOUND
  put(q, "A")
  w2 -> A

wait-7 | Q | two waits with one tag: one each time
  w1 := q.receive(LONG, tag="x")
  w2 := o.lock(LONG, tag="x")
  q.cancel("x")
  q.cancel("x")
  q.cancel("x") -> ST_NOT_FOUND
  w1 -> CANCELLED
  w2 -> CANCELLED

wait-8 | Q | the end of a handle ends all its waits and no other's
  w1 := o.receive(LONG)
  w2 := o.peek(LONG)
  w3 := oc1.receive(LONG)
  w4 := oc2.peek(LONG)
  w5 := o.lock(LONG)
  w6 := q.receive(LONG)
  o.close()
  w1 -> CANCELLED
  w2 -> CANCELLED
  w3 -> CANCELLED
  w4 -> CANCELLED
  w5 -> CANCELLED
  waits(w6) -> yes
  put(q, "A")
  w6 -> A

wait-9 | Q | the end of the queue ends all waits
  w1 := o.receive(LONG)
  w2 := q.peek(LONG)
  w3 := c1.receive(LONG)
  w4 := c2.peek(LONG)
  w5 := q.lock(LONG, tag="x")
  w6 := q.receive_many(5, LONG)
  w7 := q.receive(LONG, match=Match(correlation_id="c"))
  w8 := b1.next(LONG)
  qm.delete_queue("q") -> 0
  w1 -> NOT_AVAIL
  w2 -> NOT_AVAIL
  w3 -> NOT_AVAIL
  w4 -> NOT_AVAIL
  w5 -> NOT_AVAIL
  w6 -> NOT_AVAIL
  w7 -> NOT_AVAIL
  w8 -> NOT_AVAIL

wait-10 | Q | a delayed message serves who waits when it is due
  w1 := q.receive(LONG)
  put(q, "A", delay=60)
  waits(w1) -> yes
  clock(61)
  w1 -> A

wait-11 | Q A | a lease that lapses serves who waits
  l1 = q.lock(0, lease=5)
  w1 := o.peek(LONG)
  clock(6)
  w1 -> A
  read(q) -> A

wait-12 | T AB | a transaction whose lease lapses serves who waits
  x5 = qm.transaction(lease=5)
  t.receive_many(2, 0, transaction=x5) -> AB
  w1 := o.receive(LONG)
  w2 := o.receive(LONG)
  clock(6)
  both(w1, w2) -> AB
  x5.commit() -> TX_SEQ

wait-13 | Q | peekers in front of a receiver, and behind it
  w1 := q.peek(LONG)
  w2 := q.receive(LONG)
  w3 := q.peek(LONG)
  put(q, "A")
  w1 -> A
  w2 -> A
  waits(w3) -> yes
  put(q, "B")
  w3 -> B
  read(q) -> B

wait-14 | Q | a cursor that is closed ends its wait only
  w1 := c1.receive(LONG)
  w2 := c2.receive(LONG)
  c1.close()
  w1 -> CANCELLED
  put(q, "A")
  w2 -> A
"""

TRANSACTIONS = """
tx-1 | T + TT | sends, receives and moves over two queues of one manager, committed
  put(t, "AB")
  t.receive(0, transaction=x1) -> A
  t.move(B, into, transaction=x1)
  put(tt, "C", transaction=x1)
  state("t") -> 0/2/2
  state("tt") -> 0/1/1
  x1.commit()
  read(s) -> B
  read(tt) -> C
  state("t") -> 0/0/0

tx-2 | T + TT | ... and aborted
  put(t, "AB")
  t.receive(0, transaction=x1) -> A
  t.move(B, into, transaction=x1)
  put(tt, "C", transaction=x1)
  x1.abort()
  read(t) -> AB
  read(s) -> -
  read(tt) -> -
  t.peek().abort_count -> 1

tx-3 | T AB | the abort count counts aborted receives, nothing else
  t.receive(0, transaction=x1) -> A
  x1.abort()
  t.peek_by_lookup_id(A).abort_count -> 1
  t.peek_by_lookup_id(B).abort_count -> 0
  l1 = t.lock()
  l1.abort()
  t.peek_by_lookup_id(A).abort_count -> 1

tx-4 | T | prepare, and what can be done after it
  put(t, "A", transaction=x1)
  x1.prepare()
  x1.prepare()
  read(t) -> -
  x1.abort()
  x1.prepare() -> TX_SEQ
  state("t") -> 0/0/0

tx-5 | T A | twice, or after the other
  t.receive(0, transaction=x1) -> A
  x1.abort()
  x1.abort() -> TX_SEQ
  x1.commit() -> TX_SEQ
  t.receive(0, transaction=x2) -> A
  x2.commit()
  x2.commit() -> TX_SEQ
  x2.abort() -> TX_SEQ
  x2.extend() -> TX_SEQ

tx-6 | T | an id that is in use, and one that is free again
  x1 = qm.transaction(id="unit")
  qm.transaction(id="unit") -> TX_SEQ
  client().transaction(id="unit") -> TX_SEQ
  x1.commit()
  x2 = qm.transaction(id="unit")
  x2.abort()

tx-7 | T ABC | first and last: of the sends of one transaction, whatever is between
  t.purge() -> 3
  put(t, "D")
  put(t, "E", transaction=x1)
  t.receive(0, transaction=x1) -> D
  put(t, "F", transaction=x1)
  x1.prepare()
  x1.commit()
  t.peek_by_lookup_id(E).first_in_transaction -> True
  t.peek_by_lookup_id(E).last_in_transaction -> False
  t.peek_by_lookup_id(F).first_in_transaction -> False
  t.peek_by_lookup_id(F).last_in_transaction -> True

tx-8 | T | a closed client's transaction is aborted, its locks are gone
  put(t, "A")
  k = client()
  h = k.open("t")
  y = k.transaction()
  h.receive(0, transaction=y) -> A
  h.send(b"Z", transaction=y).token is not None -> True
  k.close()
  state("t") -> 1/0/1
  t.receive().abort_count -> 1

tx-9 | T + TT | a queue of it is deleted before the commit: the rest is done
  put(t, "A", transaction=x1)
  put(tt, "B", transaction=x1)
  qm.delete_queue("t") -> 1
  x1.commit()
  read(tt) -> B
  qm.info().transactions -> 0

tx-10 | T AB | purge spares what the transaction sends and takes what it holds
  t.receive(0, transaction=x1) -> A
  put(t, "C", transaction=x1)
  t.purge() -> 1
  x1.abort()
  state("t") -> 0/0/0

tx-11 | T A | purge, then commit: the send appears, the receive is done
  t.receive(0, transaction=x1) -> A
  put(t, "C", transaction=x1)
  t.purge() -> 0
  x1.commit()
  read(t) -> C

tx-12 | T ABCD | two transactions take every other message and end crosswise
  t.receive(0, transaction=x1) -> A
  t.receive(0, transaction=x2) -> B
  t.receive(0, transaction=x1) -> C
  t.receive(0, transaction=x2) -> D
  x1.abort()
  read(t) -> AC
  x2.abort()
  read(t) -> ABCD

tx-13 | Q | what is not in a transaction is not for its queue, and the reverse
  q.send(b"X", transaction=x1) -> TX_USAGE
  qm.create_queue("u", transactional=True).name -> u
  qm.open("u").send(b"X") -> TX_USAGE
  qm.info().messages -> 0

tx-14 | T A | reject: only what was received here
  m = t.peek()
  x1.reject(t, m) -> TX_USAGE
  n = t.receive(0, transaction=x2)
  put(t, "B", transaction=x1)
  x1.reject(t, n) -> TX_USAGE
  x2.reject(t, n)
  x2.commit()
  x1.abort()
  state("t") -> 0/0/0
"""

QUOTAS = """
quota-1 | Q quota_messages=2 | full, one leaves, one fits
  put(q, "AB")
  q.send(b"X") -> REFUSED_1
  q.receive() -> A
  put(q, "C")
  q.send(b"X") -> REFUSED_1
  read(q) -> BC

quota-2 | Q quota_messages=1 A | a peek or a lock makes no room, its end does
  l1 = q.lock()
  q.send(b"X") -> REFUSED_1
  l1.abort()
  q.send(b"X") -> REFUSED_1
  l2 = q.lock()
  l2.commit()
  put(q, "B")

quota-3 | T quota_messages=1 A | a receive in a transaction makes room when it is committed
  t.receive(0, transaction=x1) -> A
  t.send(b"X", transaction=x2) -> REFUSED_1
  x1.commit()
  t.send(b"X", transaction=x2).token is not None -> True
  x2.commit()

quota-4 | Q quota_messages=1 A | what was moved to a subqueue still counts
  q.move(A, into)
  q.send(b"X") -> REFUSED_1
  s.receive() -> A
  put(q, "B")

quota-5 | Q quota_messages=1 A + QQ quota_messages=9 | the manager comes first
  qm.set_quota(messages=1)
  q.send(b"X") -> REFUSED_2
  qq.send(b"X") -> REFUSED_2
  qm.set_quota(messages=None)
  q.send(b"X") -> REFUSED_1
  put(qq, "B")

quota-6 | Q A | throttled: nothing is sent, everything is read
  qm.throttle(True)
  q.send(b"X") -> REFUSED_2
  q.send_many([b"X", b"Y"]) -> REFUSED_2
  q.receive() -> A
  qm.throttle(False)
  put(q, "B")

quota-7 | Q A | a lowered quota affects what arrives
  qm.update_queue("q", quota_messages=0).quota_messages -> 0
  q.send(b"X") -> REFUSED_1
  q.receive() -> A
  q.send(b"X") -> REFUSED_1
  qm.update_queue("q", quota_messages=None).quota_messages is None -> True
  put(q, "B")

quota-8 | Q quota_messages=1 | an expired message makes room
  put(q, "A", time_to_be_received=5)
  q.send(b"X") -> REFUSED_1
  clock(6)
  put(q, "B")
  read(q) -> B

quota-9 | Q quota_messages=1 | a delayed message counts
  put(q, "A", delay=60)
  q.send(b"X") -> REFUSED_1

quota-10 | Q quota_messages=3 A | several at once: all or none
  q.send_many([b"X", b"Y", b"Z"]) -> REFUSED_1
  read(q) -> A
  len(q.send_many([b"B", b"C"])) -> 2

quota-11 | Q quota_messages=0 | timed out on the way comes first of all
  q.send(b"X", sent_seconds_ago=9, time_to_reach_queue=5) -> REFUSED_3
  qm.throttle(True)
  q.send(b"X", sent_seconds_ago=9, time_to_reach_queue=5) -> REFUSED_3
  q.send(b"X", sent_seconds_ago=5, time_to_reach_queue=5) -> REFUSED_2
"""

TIMERS = """
timer-1 | Q | the shorter time wins, whichever it is
  put(q, "A", time_to_be_received=10, time_to_reach_queue=2)
  put(q, "B", time_to_be_received=2, time_to_reach_queue=10)
  clock(5)
  read(q) -> A

timer-2 | Q | it counts from the send, not from the arrival
  put(q, "A", time_to_be_received=10, sent_seconds_ago=8)
  put(q, "B", time_to_be_received=10)
  clock(3)
  read(q) -> B

timer-3 | T | an uncommitted send that expires is gone at the commit
  put(t, "A", transaction=x1, time_to_be_received=5)
  put(t, "B", transaction=x1)
  clock(6)
  x1.commit()
  read(t) -> B
  state("t") -> 1/0/1

timer-4 | Q | never read by id, by cursor, by match
  put(q, "A", time_to_be_received=5, correlation_id="c")
  c1.peek() -> A
  clock(6)
  q.peek_by_lookup_id(A) -> NOT_FOUND
  q.receive_by_lookup_id(A) -> NOT_FOUND
  q.receive(0, match=Match(correlation_id="c")) -> IO_TIMEOUT
  c1.peek() -> ALREADY
  q.move(A, into) -> NOT_FOUND
  q.peek() -> IO_TIMEOUT

timer-5 | Q | a moved message keeps its time
  put(q, "A", time_to_be_received=5)
  q.move(A, into)
  clock(6)
  s.peek() -> IO_TIMEOUT
  qm.info().messages -> 0

timer-6 | Q | what expired while it was locked is committed by its reader
  put(q, "A", time_to_be_received=5)
  l1 = q.lock(0, lease=60)
  clock(6)
  l1.commit()
  qm.info().messages -> 0

timer-7 | Q AB | zero expires at once, and its neighbours stay
  put(q, "C", time_to_be_received=0)
  q.receive_many(5) -> AB
  qm.info().messages -> 0
"""

QUEUES = """
queue-1 | Q A | deleted, made again: old handles are of the old one
  qm.delete_queue("q") -> 1
  qm.create_queue("q").messages -> 0
  q.send(b"X") -> NOT_AVAIL
  q.peek() -> NOT_AVAIL
  q.purge() -> NOT_AVAIL
  q.cancel("x") -> NOT_AVAIL
  q.close()
  qm.open("q").send(b"B").token is not None -> True

queue-2 | Q | unknown ones
  qm.open("nowhere") -> NO_QUEUE
  qm.open("nowhere", Access.SEND) -> NO_QUEUE
  qm.queue_info("nowhere") -> NO_QUEUE
  qm.update_queue("nowhere", label="x") -> NO_QUEUE
  qm.delete_queue("nowhere") -> NO_QUEUE
  qm.create_queue("q") -> EXISTS

queue-3 | Q A + QQ | several names: sends only, and only shared ones
  qm.open("q,qq", Access.RECEIVE) -> BAD_FORMAT
  qm.open("q,qq", Access.SEND, Share.DENY_RECEIVE) -> BAD_MODE
  qm.open("q,nowhere", Access.SEND) -> NO_QUEUE
  qm.queue_info("qq").active -> True

queue-4 | Q + QQ quota_messages=0 | several names: the first refusal ends it, copies before it stay
  m = qm.open("q,qq", Access.SEND)
  m.send(b"A") -> REFUSED_1
  read(q) -> A
  m.close()
  m.send(b"A") -> BAD_HANDLE

queue-5 | T + TT quota_messages=0 | ... unless a transaction is aborted
  m = qm.open("t,tt", Access.SEND)
  m.send(b"A", transaction=x1) -> REFUSED_1
  x1.abort()
  read(t) -> -

queue-6 | Q A | a closed handle
  q.close()
  q.close()
  q.peek() -> BAD_HANDLE
  q.receive() -> BAD_HANDLE
  q.lock() -> BAD_HANDLE
  q.send(b"X") -> BAD_HANDLE
  q.peek_by_lookup_id(A) -> BAD_HANDLE
  q.receive_by_lookup_id(A) -> BAD_HANDLE
  q.move(A, into) -> BAD_HANDLE
  q.purge() -> BAD_HANDLE
  q.cancel("x") -> BAD_HANDLE
  q.cursor() -> BAD_HANDLE
  q.browser() -> BAD_HANDLE
"""
