"""Moves, quotas, queues and handles."""

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
