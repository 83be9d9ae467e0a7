"""Two-phase reads and transactions."""

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
