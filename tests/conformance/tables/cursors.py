"""Cursors."""

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
