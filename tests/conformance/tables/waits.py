"""Waits and timers."""

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
