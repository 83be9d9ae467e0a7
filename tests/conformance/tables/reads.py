"""Order and identifiers, plain reads, reads by lookup id."""

ORDER = """
order-1 | Q | arrival order within one priority
  put(q, "A")
  put(q, "B", priority=3)
  put(q, "C")
  q.receive_many(3) -> ABC

order-2 | Q | every priority from 7 to 0, whatever the order of the sends
  put(q, "A", priority=0)
  put(q, "B", priority=1)
  put(q, "C", priority=2)
  put(q, "D", priority=3)
  put(q, "E", priority=4)
  put(q, "F", priority=5)
  put(q, "G", priority=6)
  put(q, "H", priority=7)
  read(q) -> HGFEDCBA

order-3 | T A | an aborted send uses an id, the next one is greater
  x1.id is not None -> True
  q0 = t.send(b"B", transaction=x1)
  x1.abort()
  put(t, "C")
  C > q0.lookup_id > A -> True

order-4 | Q | a refusal by the throttle uses no id
  put(q, "A")
  qm.throttle(True)
  q.send(b"X") -> REFUSED_2
  qm.throttle(False)
  put(q, "B")
  B - A -> 1

order-5 | T + Q | transactional and plain messages share one counter
  put(t, "A")
  put(q, "B")
  put(t, "C")
  (A, B & 0xFFFFFFFFFFFFFF, C) -> (1, 2, 3)

order-6 | Q ABC | a message given back keeps its place behind a higher priority that came meanwhile
  l1 = q.lock() -> A
  put(q, "H", priority=7)
  l1.abort()
  read(q) -> HABC

order-7 | T ABC | a receive that is aborted keeps its place, one that was sent later but committed earlier stays behind
  t.receive(transaction=x1) -> A
  put(t, "D")
  x1.abort()
  read(t) -> ABCD

order-8 | T | send order holds over three transactions that end in the reverse order
  put(t, "A", transaction=x1)
  put(t, "B", transaction=x2)
  put(t, "C", transaction=x3)
  put(t, "D", transaction=x1)
  x3.commit()
  read(t) -> C
  x2.commit()
  read(t) -> BC
  x1.commit()
  read(t) -> ABCD

order-9 | T | priority counts for nothing in a transactional queue, though the message shows it
  put(t, "A", priority=0)
  put(t, "B", priority=7)
  read(t) -> AB
  t.peek_by_lookup_id(B).priority -> 7

order-10 | Q AB | ids are unique over queues and are not found in another queue
  qm.create_queue("other").name -> other
  p = qm.open("other")
  p.peek_by_lookup_id(A) -> NOT_FOUND
  p.receive_by_lookup_id(A) -> NOT_FOUND
  read(q) -> AB
"""

PLAIN = """
plain-1 | Q | a short wait on an empty queue
  q.receive(0.02) -> IO_TIMEOUT
  q.peek(0.02) -> IO_TIMEOUT
  q.lock(0.02) -> IO_TIMEOUT

plain-2 | Q A | a message that is there is had at once, however long one would wait
  q.peek(None) -> A
  q.peek(LONG) -> A
  q.receive(None) -> A

plain-3 | Q A | no negative timeout ever waits, nor does it keep from what is there
  q.peek(-1) -> A
  q.receive(-5) -> A
  q.lock(-1) -> IO_TIMEOUT

plain-4 | T AB | a receive without a transaction from a transactional queue is allowed
  t.receive() -> A
  t.lock().commit()
  state("t") -> 0/0/0

plain-5 | T AB | a transaction has its message for itself, the others have the next
  t.receive(transaction=x1) -> A
  t.peek() -> B
  o.receive(transaction=x2) -> B
  t.receive(transaction=x1) -> IO_TIMEOUT
  x1.abort()
  t.receive(transaction=x2) -> A
  x2.commit()
  state("t") -> 0/0/0

plain-6 | T | a transaction does not receive its own send, nor sees it
  put(t, "A", transaction=x1)
  t.receive(transaction=x1) -> IO_TIMEOUT
  t.peek_by_lookup_id(0, seek=Seek.FIRST) -> NOT_FOUND
  t.receive_by_lookup_id(A, transaction=x1) -> NOT_FOUND
  state("t") -> 0/1/1
  x1.commit()
  state("t") -> 1/0/1

plain-7 | T A | nor what it has received itself
  t.receive(transaction=x1) -> A
  t.receive(transaction=x1) -> IO_TIMEOUT
  t.receive_by_lookup_id(A, transaction=x1) -> NOT_FOUND
  t.peek_by_lookup_id(A) -> TX_USAGE
  x1.abort()

plain-8 H13 | Q A | a peek never takes part in a transaction
  q.peek(transaction=x1) -> TX_USAGE
  state("q") -> 1/0/1

plain-9 | T A | not even of a transactional queue
  t.peek(transaction=x1) -> TX_USAGE
  x1.commit()
  read(t) -> A

plain-10 H16 | T A | a commit that would keep its locks is not supported
  t.receive(transaction=x1) -> A
  x1.commit(retaining=True) -> NOT_SUPPORTED
  state("t") -> 0/1/1
  x1.commit()
  state("t") -> 0/0/0
"""

LOOKUP = """
lookup-1 | Q ABC | the neighbours
  q.peek_by_lookup_id(B, seek=Seek.NEXT) -> C
  q.peek_by_lookup_id(B, seek=Seek.PREVIOUS) -> A
  read(q) -> ABC

lookup-2 | Q ABC | first and last do not look at the id
  q.peek_by_lookup_id(999, seek=Seek.FIRST) -> A
  q.peek_by_lookup_id(2**64 - 1, seek=Seek.LAST) -> C
  q.receive_by_lookup_id(B, seek=Seek.LAST) -> C
  q.receive_by_lookup_id(B, seek=Seek.FIRST) -> A
  read(q) -> B

lookup-3 | Q ABC | next and previous pass over what is locked, several too
  put(q, "DE")
  l1 = q.lock_by_lookup_id(B)
  l2 = q.lock_by_lookup_id(C)
  l3 = q.lock_by_lookup_id(D)
  q.peek_by_lookup_id(A, seek=Seek.NEXT) -> E
  q.peek_by_lookup_id(E, seek=Seek.PREVIOUS) -> A
  q.receive_by_lookup_id(A, seek=Seek.NEXT) -> E
  l2.abort()
  q.receive_by_lookup_id(A, seek=Seek.NEXT) -> C

lookup-4 | T ABC | last passes over what is locked
  t.receive_by_lookup_id(C, transaction=x1) -> C
  t.peek_by_lookup_id(0, seek=Seek.LAST) -> B
  t.receive_by_lookup_id(0, seek=Seek.LAST, transaction=x1) -> B
  t.receive_by_lookup_id(0, seek=Seek.LAST, transaction=x1) -> A
  t.receive_by_lookup_id(0, seek=Seek.LAST, transaction=x1) -> NOT_FOUND
  x1.abort()
  read(t) -> ABC

lookup-5 | T ABC | in a transaction, committed
  t.receive_by_lookup_id(B, transaction=x1) -> B
  state("t") -> 2/1/3
  x1.commit()
  t.peek_by_lookup_id(B) -> NOT_FOUND
  read(t) -> AC

lookup-6 | Q AB | a transaction and a plain queue
  q.receive_by_lookup_id(A, transaction=x1) -> TX_USAGE
  state("q") -> 2/0/2

lookup-7 | Q ABC | an id whose message is gone is no anchor
  q.receive_by_lookup_id(B) -> B
  q.peek_by_lookup_id(B, seek=Seek.NEXT) -> NOT_FOUND
  q.peek_by_lookup_id(B, seek=Seek.PREVIOUS) -> NOT_FOUND
  q.receive_by_lookup_id(B, seek=Seek.NEXT) -> NOT_FOUND
  q.peek_by_lookup_id(A, seek=Seek.NEXT) -> C

lookup-8 | Q A | the edges of the number space
  q.peek_by_lookup_id(0) -> NOT_FOUND
  q.peek_by_lookup_id(2**64 - 1) -> NOT_FOUND
  q.receive_by_lookup_id(2**64 - 1, seek=Seek.PREVIOUS) -> NOT_FOUND
  q.receive_by_lookup_id(0, seek=Seek.NEXT) -> NOT_FOUND
  read(q) -> A

lookup-9 | T AB | a finished transaction takes nothing
  x1.commit()
  t.receive_by_lookup_id(A, transaction=x1) -> TX_SEQ
  t.receive(transaction=x1) -> TX_SEQ
  c1.receive(transaction=x1) -> TX_SEQ
  t.send(b"Z", transaction=x1) -> TX_SEQ
  t.move(A, into, transaction=x1) -> TX_SEQ
  read(t) -> AB

lookup-10 | Q ABC | a lock by id that is shown to peeks
  l1 = q.lock_by_lookup_id(A, allow_peek=True) -> A
  o.peek() -> A
  o.peek_by_lookup_id(A) -> A
  o.peek_by_lookup_id(B, seek=Seek.PREVIOUS) -> A
  o.receive_by_lookup_id(A) -> NOT_FOUND
  o.receive() -> B
  read(o) -> C
  l1.commit()
  o.peek() -> C

lookup-11 | Q ABC | given back, it is like any other
  l1 = q.lock_by_lookup_id(A, allow_peek=True)
  l1.abort()
  l2 = q.lock_by_lookup_id(A)
  o.peek_by_lookup_id(A) -> TX_USAGE
  o.peek() -> B
  l2.abort()

lookup-12 | T ABC | shown to peeks: first for a receive passes over it, first for a peek does not
  t.receive_by_lookup_id(A, transaction=x1, allow_peek=True) -> A
  o.peek_by_lookup_id(0, seek=Seek.FIRST) -> A
  o.receive_by_lookup_id(0, seek=Seek.FIRST) -> B
  o.receive_by_lookup_id(A) -> NOT_FOUND
  x1.abort()
  read(t) -> AC

lookup-13 | T ABC | shown to peeks: a cursor's receive and next
  t.receive_by_lookup_id(B, transaction=x1, allow_peek=True) -> B
  oc1.peek() -> A
  oc1.peek_next() -> B
  oc1.peek() -> ALREADY
  oc1.receive() -> ALREADY
  oc1.peek_next() -> C
  oc2.receive() -> A
  oc2.receive() -> C
  x1.abort()

lookup-14 | T A | shown to peeks and aborted: the cursor that showed it sees it again and may have it
  t.receive_by_lookup_id(A, transaction=x1, allow_peek=True) -> A
  oc1.peek() -> A
  oc1.peek() -> ALREADY
  x1.abort()
  oc1.peek() -> A
  oc1.receive() -> A

lookup-15 | T A | shown to peeks: a peek that comes later does not wait
  t.receive_by_lookup_id(A, transaction=x1, allow_peek=True) -> A
  o.peek(LONG) -> A
  o.receive(0.02) -> IO_TIMEOUT
  x1.commit()
  o.peek() -> IO_TIMEOUT

lookup-16 | Q ABC | neighbours are found by place, whatever was sent in between
  put(q, "H", priority=7)
  put(q, "L", priority=0)
  q.peek_by_lookup_id(A, seek=Seek.PREVIOUS) -> H
  q.peek_by_lookup_id(C, seek=Seek.NEXT) -> L
  q.peek_by_lookup_id(0, seek=Seek.FIRST) -> H
  q.peek_by_lookup_id(0, seek=Seek.LAST) -> L
"""
