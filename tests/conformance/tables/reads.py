"""Order and identifiers, plain reads, reads by lookup id, cursors, two-phase reads."""

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

CURSORS = """
cursor-1 | Q ABC | the walk to the end, and nothing moves there
  c1.peek() -> A
  c1.peek_next() -> B
  c1.peek_next() -> C
  c1.peek_next() -> IO_TIMEOUT
  c1.peek_next() -> ILLEGAL_CURSOR
  c1.peek() -> IO_TIMEOUT
  c1.receive() -> NOT_FOUND
  read(q) -> ABC

cursor-2 | Q ABC | after the end an arrival behind it is seen, one in front is not
  c1.peek() -> A
  c1.peek_next() -> B
  c1.peek_next() -> C
  c1.peek_next() -> IO_TIMEOUT
  put(q, "H", priority=7)
  c1.peek() -> IO_TIMEOUT
  put(q, "D")
  c1.peek() -> D
  c1.peek_next() -> IO_TIMEOUT

cursor-3 | Q ABC | a receive at the end with no time leaves everything as it is
  c1.receive() -> A
  c1.receive() -> B
  c1.receive() -> C
  c1.receive() -> NOT_FOUND
  c1.peek_next() -> ILLEGAL_CURSOR
  put(q, "D")
  c1.peek() -> D
  c1.receive() -> D

cursor-4 | Q ABC | a receive that waited in vain is at the end for good: only a wait brings it something
  c1.receive() -> A
  c1.receive() -> B
  c1.receive() -> C
  c1.receive(0.02) -> IO_TIMEOUT
  put(q, "D")
  c1.receive() -> NOT_FOUND
  c1.peek() -> IO_TIMEOUT
  c1.peek_next() -> ILLEGAL_CURSOR
  w := c1.receive(LONG)
  put(q, "E")
  w -> E
  read(q) -> D

cursor-5 | Q | a peek that waited in vain keeps its place
  c1.peek(0.02) -> IO_TIMEOUT
  put(q, "A")
  c1.peek() -> A
  c1.peek_next(0.02) -> IO_TIMEOUT
  put(q, "B")
  c1.peek() -> B

cursor-6 | Q ABC | peek after receive goes on to the next
  c1.peek() -> A
  c1.peek_next() -> B
  c1.receive() -> B
  c1.peek() -> C
  c1.receive() -> C
  c1.peek() -> IO_TIMEOUT
  read(q) -> A

cursor-7 | T AB | the message under the cursor is locked and comes back
  c1.peek() -> A
  o.receive(transaction=x1) -> A
  c1.peek() -> ALREADY
  c1.receive() -> ALREADY
  c1.peek() -> ALREADY
  x1.abort()
  c1.peek() -> A
  c1.receive() -> A
  c1.peek() -> B

cursor-8 | T ABC | ... or not
  c1.peek() -> A
  o.receive(transaction=x1) -> A
  x1.commit()
  c1.peek() -> ALREADY
  c1.receive() -> ALREADY
  c1.peek_next() -> B

cursor-9 | Q ABC | the message under the cursor is moved away
  c1.peek() -> A
  q.move(A, into)
  c1.peek() -> ALREADY
  c1.receive() -> ALREADY
  c1.peek_next() -> B
  s.receive() -> A

cursor-10 | Q AB | the message under the cursor expires
  put(q, "C", time_to_be_received=5)
  c1.peek() -> A
  c1.peek_next() -> B
  c1.peek_next() -> C
  clock(6)
  c1.peek() -> ALREADY
  c1.receive() -> ALREADY
  c1.peek_next() -> IO_TIMEOUT

cursor-11 | Q ABC | a lock through a cursor: the place goes on, committed or given back
  l1 = c1.lock() -> A
  c1.peek_next() -> ILLEGAL_CURSOR
  c1.peek() -> B
  l2 = c1.lock() -> B
  l1.abort()
  l2.commit()
  c1.peek() -> C
  read(q) -> AC

cursor-12 | Q AB | a lock through a cursor of what somebody else has
  c1.peek() -> A
  l1 = o.lock()
  c1.lock() -> ALREADY
  l1.abort()
  c1.lock().commit()
  read(q) -> B

cursor-13 | T ABC | receives of a cursor in a transaction that aborts: the cursor is past them
  c1.peek() -> A
  c1.receive(transaction=x1) -> A
  c1.receive(transaction=x1) -> B
  x1.abort()
  c1.receive() -> C
  c1.receive() -> NOT_FOUND
  c2.peek() -> A

cursor-14 | Q AB | a transaction and a plain queue: the cursor has not moved
  c1.receive(transaction=x1) -> TX_USAGE
  c1.peek() -> A
  c1.receive(transaction=x1) -> TX_USAGE
  c1.peek_next() -> B

cursor-15 | Q AB | purged in front of the cursor and filled again
  c1.peek() -> A
  q.purge() -> 2
  put(q, "CD")
  c1.peek() -> ALREADY
  c1.peek_next() -> C
  c1.peek_next() -> D

cursor-16 | Q AB | two cursors of two clients do not know each other
  c1.peek() -> A
  oc1.peek() -> A
  oc1.receive() -> A
  c1.receive() -> ALREADY
  c1.peek_next() -> B
  oc1.peek() -> B
  c1.receive() -> B
  oc1.peek() -> ALREADY

cursor-17 | Q AB | reset
  c1.peek() -> A
  c1.peek_next() -> B
  c1.reset()
  c1.peek_next() -> ILLEGAL_CURSOR
  c1.receive() -> A

cursor-18 | Q A | a cursor of a handle that may only peek
  v = qm.open("q", Access.PEEK)
  d = v.cursor()
  d.peek(0) -> A
  d.receive(0) -> DENIED
  d.lock(0) -> DENIED
  d.peek(0) -> A

cursor-19 | Q AB | a cursor ends with its handle, and once is enough
  c1.peek() -> A
  c1.close()
  c1.close()
  c1.peek() -> BAD_HANDLE
  c1.peek_next() -> BAD_HANDLE
  c2.peek() -> A
  q.close()
  c2.peek() -> BAD_HANDLE
  q.cursor() -> BAD_HANDLE

cursor-20 | Q A | a wait of next brings what became available in front
  l1 = q.lock()
  put(q, "B")
  c1.peek() -> B
  w := c1.peek_next(LONG)
  l1.abort()
  w -> A
  c1.peek() -> A
  c1.peek_next() -> B

cursor-21 | Q A | a wait of receive takes what became available in front, and the cursor goes on from there
  l1 = q.lock()
  put(q, "B")
  c1.peek() -> B
  c1.receive() -> B
  put(q, "C")
  c1.receive() -> C
  w := c1.receive(LONG)
  l1.abort()
  w -> A
  put(q, "D")
  c1.peek() -> D

cursor-22 | Q ABC | two operations of one cursor at once
  c1.peek() -> A
  c1.peek_next() -> B
  c1.peek_next() -> C
  w := c1.peek_next(LONG)
  c1.peek() -> ILLEGAL_CURSOR
  c1.receive() -> ILLEGAL_CURSOR
  c1.peek_next() -> ILLEGAL_CURSOR
  put(q, "D")
  w -> D

cursor-23 | Q AB | the queue is deleted and made again: not the same queue
  c1.peek() -> A
  qm.delete_queue("q") -> 2
  qm.create_queue("q").name -> q
  c1.peek() -> NOT_AVAIL
  c1.peek_next() -> NOT_AVAIL
  c1.receive() -> NOT_AVAIL
  c1.lock() -> NOT_AVAIL

cursor-24 | Q ABC | all but the last are locked
  l1 = q.lock()
  l2 = q.lock()
  c1.peek() -> C
  c1.peek_next() -> IO_TIMEOUT
  l1.abort()
  l2.abort()
  c1.peek() -> IO_TIMEOUT
  c2.peek() -> A

cursor-25 | T | an uncommitted send is passed over, and is in front of the cursor when it is committed
  put(t, "A", transaction=x1)
  put(t, "B")
  c1.peek() -> B
  x1.commit()
  c1.peek_next() -> IO_TIMEOUT
  c2.peek() -> A
  c2.peek_next() -> B

cursor-26 | Q A | a refused wait of a cursor in a wrong state costs nothing
  c1.peek_next(LONG) -> ILLEGAL_CURSOR
  c1.peek_next(None) -> ILLEGAL_CURSOR
  c1.peek() -> A
"""

LOCKS = """
lock-1 | Q AB | given back: the old place, available at once
  l1 = q.lock() -> A
  l1.abort()
  q.receive() -> A

lock-2 | Q AB | rejected: it leaves
  l1 = q.lock() -> A
  l1.reject()
  read(q) -> B
  state("q") -> 1/0/1

lock-3 | Q AB | an end is an end
  l1 = q.lock()
  l1.commit()
  l1.commit() -> TX_SEQ
  l1.abort() -> TX_SEQ
  l1.reject() -> TX_SEQ
  l1.extend(5) -> TX_SEQ
  read(q) -> B

lock-4 | Q AB | ... also after it was given back
  l1 = q.lock()
  l1.abort()
  l1.commit() -> TX_SEQ
  l1.abort() -> TX_SEQ
  l1.reject() -> TX_SEQ
  read(q) -> AB

lock-5 | Q A | a lease that has lapsed: somebody else has it, and keeps it
  l1 = q.lock(0, lease=5)
  clock(6)
  l2 = o.lock(0, lease=50) -> A
  l1.commit() -> LOCK_LOST
  l1.abort() -> LOCK_LOST
  l1.reject() -> LOCK_LOST
  l1.extend() -> LOCK_LOST
  state("q") -> 0/1/1
  l2.commit()
  state("q") -> 0/0/0

lock-6 | Q A | a fence grows with every grant
  l1 = q.lock()
  l1.abort()
  l2 = q.lock()
  int(l2.fence) > int(l1.fence) -> True
  l2.abort()

lock-7 G7 | T A | in a transaction: the lock belongs to it, its end does nothing
  l1 = t.lock(0, transaction=x1) -> A
  l1.abort()
  state("t") -> 0/1/1
  t.peek() -> IO_TIMEOUT
  x1.abort()
  read(t) -> A

lock-8 | T AB | in a transaction: committed
  l1 = t.lock(0, transaction=x1) -> A
  l1.commit()
  state("t") -> 1/1/2
  x1.commit()
  state("t") -> 1/0/1

lock-9 | T A | in a transaction that is over, an end is out of sequence
  l1 = t.lock(0, transaction=x1) -> A
  x1.abort()
  l1.commit() -> TX_SEQ
  l1.abort() -> TX_SEQ
  read(t) -> A

lock-10 | Q A | in a transaction, from a plain queue
  q.lock(0, transaction=x1) -> TX_USAGE
  state("q") -> 1/0/1

lock-11 | Q AB | ends of a queue that is gone
  l1 = q.lock()
  qm.delete_queue("q") -> 2
  l1.commit() -> NOT_AVAIL
  l1.abort() -> NOT_AVAIL
  l1.reject() -> NOT_AVAIL

lock-12 | Q AB | the handle is closed: given back, and its locks are no more
  l1 = q.lock() -> A
  q.close()
  l1.commit() -> BAD_HANDLE
  o.receive_many(2) -> AB

lock-13 | Q AB | the client is closed: given back
  k = client()
  h = k.open("q")
  l1 = h.lock(0) -> A
  k.close()
  read(q) -> AB

lock-14 | Q ABC | settle and lock the next in one call
  l1 = q.lock()
  l2 = q.lock_many(2, 0, settle=[l1])
  l2 -> BC
  l1.settled -> True
  state("q") -> 0/2/2
  q.lock_many(1, 0, settle=l2) -> IO_TIMEOUT
  state("q") -> 0/0/0

lock-15 | Q A | an extended lease holds from now
  l1 = q.lock(0, lease=5)
  clock(4)
  l1.extend(5)
  clock(4)
  q.peek() -> IO_TIMEOUT
  clock(2)
  q.peek() -> A

lock-16 | Q A | delivery count: each delivery, no peek
  q.peek().delivery_count -> 0
  l1 = q.lock()
  l1.message.delivery_count -> 1
  l1.abort()
  q.peek().delivery_count -> 1
  l2 = q.lock_by_lookup_id(A)
  l2.message.delivery_count -> 2
  l2.abort()
  q.receive().delivery_count -> 3
"""
