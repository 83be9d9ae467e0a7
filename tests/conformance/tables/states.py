"""What every operation does with a message in every state, and what becomes of it in the end.

``MATRIX``: P before, A in the state, N behind; what an operation on a fresh queue in that state answers.
``FATES``: what is left when the state ends: the message, its acknowledgement, its journal copy, its dead letter.
"""

# How A comes into a state. The transactional queue ``t`` holds P, A and N.
STATES = {
    "available": "",
    "locked": "l1 = o.lock_by_lookup_id(A)",
    "shown": "l1 = o.lock_by_lookup_id(A, allow_peek=True)",
    "received in a transaction": "o.receive_by_lookup_id(A, transaction=x1)",
    "received in a transaction, shown": "o.receive_by_lookup_id(A, transaction=x1, allow_peek=True)",
    "moving in a transaction": "t.move(A, into, transaction=x1)",
    "received": "o.receive_by_lookup_id(A)",
    "committed": "l1 = o.lock_by_lookup_id(A); l1.commit()",
    "rejected": "l1 = o.lock_by_lookup_id(A); l1.reject()",
    "moved": "t.move(A, into)",
    "given back": "l1 = o.lock_by_lookup_id(A); l1.abort()",
    "lapsed": "l1 = o.lock_by_lookup_id(A, lease=5); clock(6)",
    "aborted": "o.receive_by_lookup_id(A, transaction=x1); x1.abort()",
    "aborted move": "t.move(A, into, transaction=x1); x1.abort()",
    "moved and back": "t.move(A, into); s.move(A, home)",
}
# The states that come to the same.
THERE = ["available", "given back", "lapsed", "aborted", "aborted move", "moved and back"]
HELD = ["locked", "received in a transaction", "moving in a transaction"]
SHOWN = ["shown", "received in a transaction, shown"]
GONE = ["received", "committed", "rejected", "moved"]

# operation | there | held | shown to peeks | gone
MATRIX = """
t.peek_by_lookup_id(A)                                                   | A  | TX_USAGE  | A         | NOT_FOUND
t.receive_by_lookup_id(A)                                                | A  | NOT_FOUND | NOT_FOUND | NOT_FOUND
t.lock_by_lookup_id(A)                                                   | A  | NOT_FOUND | NOT_FOUND | NOT_FOUND
t.receive_by_lookup_id(A, transaction=x9)                                | A  | NOT_FOUND | NOT_FOUND | NOT_FOUND
t.peek_by_lookup_id(P, seek=Seek.NEXT)                                   | A  | N         | A         | N
t.peek_by_lookup_id(N, seek=Seek.PREVIOUS)                               | A  | P         | A         | P
t.receive_by_lookup_id(P, seek=Seek.NEXT)                                | A  | N         | N         | N
t.lock_by_lookup_id(N, seek=Seek.PREVIOUS)                               | A  | P         | P         | P
t.peek_by_lookup_id(A, seek=Seek.NEXT)                                   | N  | N         | N         | NOT_FOUND
t.peek_by_lookup_id(A, seek=Seek.PREVIOUS)                               | P  | P         | P         | NOT_FOUND
t.receive_by_lookup_id(A, seek=Seek.NEXT)                                | N  | N         | N         | NOT_FOUND
t.receive_by_lookup_id(A, seek=Seek.PREVIOUS)                            | P  | P         | P         | NOT_FOUND
t.receive().body; t.peek()                                               | A  | N         | A         | N
t.receive().body; t.receive()                                            | A  | N         | N         | N
t.receive().body; t.lock()                                               | A  | N         | N         | N
t.receive().body; t.receive(0, transaction=x9)                           | A  | N         | N         | N
t.receive().body; t.peek_by_lookup_id(0, seek=Seek.FIRST)                | A  | N         | A         | N
t.receive().body; t.receive_by_lookup_id(0, seek=Seek.FIRST)             | A  | N         | N         | N
t.receive_by_lookup_id(N).body; t.peek_by_lookup_id(0, seek=Seek.LAST)   | A  | P         | A         | P
t.receive_by_lookup_id(N).body; t.lock_by_lookup_id(0, seek=Seek.LAST)   | A  | P         | P         | P
t.receive_many(3)                                                        | PAN| PN        | PN        | PN
t.lock_many(3)                                                           | PAN| PN        | PN        | PN
t.browse()                                                               | PAN| PN        | PN        | PN
c1.peek().body; c1.peek_next()                                           | A  | N         | A         | N
c1.peek().body; c1.peek_next().body; c1.peek()                           | A  | N         | ALREADY   | N
c1.peek().body; c1.peek_next().body; c1.receive()                        | A  | N         | ALREADY   | N
c1.peek().body; c1.peek_next().body; c1.lock()                           | A  | N         | ALREADY   | N
c1.receive().body; c1.receive()                                          | A  | N         | N         | N
c1.receive().body; c1.peek()                                             | A  | N         | A         | N
c2.peek()                                                                | A  | ALREADY   | ALREADY   | ALREADY
c2.receive()                                                             | A  | ALREADY   | ALREADY   | ALREADY
c2.lock()                                                                | A  | ALREADY   | ALREADY   | ALREADY
c2.receive(0, transaction=x9)                                            | A  | ALREADY   | ALREADY   | ALREADY
c2.peek_next()                                                           | N  | N         | N         | N
t.move(A, aside)                                                          | ok | LOCKED_TX | LOCKED_TX | NOT_FOUND
t.move(A, aside, transaction=x9)                                         | ok | LOCKED_TX | LOCKED_TX | NOT_FOUND
t.receive(0, match=Match(message_id=b"A"))                               | A  | IO_TIMEOUT| IO_TIMEOUT| IO_TIMEOUT
t.peek(0, match=Match(message_id=b"A"))                                  | A  | IO_TIMEOUT| IO_TIMEOUT| IO_TIMEOUT
t.lock(0, selector="k = 'A'")                                            | A  | IO_TIMEOUT| IO_TIMEOUT| IO_TIMEOUT
b1.first().body; b1.next()                                               | A  | N         | N         | N
b2.current()                                                             | A  | ALREADY   | A         | ALREADY
b2.take()                                                                | A  | ALREADY   | ALREADY   | ALREADY
b2.next()                                                                | N  | N         | N         | N
t.purge()                                                                | 3  | 2         | 2         | 2
"""

# What FATES asks for: everything a message can ask for.
WANTS = "acknowledge=Acknowledge.FULL_RECEIVE, administration_queue='admin', journal=Journal.DEAD_LETTER"

# how it ends | what is left in t | acknowledgement | in the journal | in the dead letters of transactions
FATES = """
t.receive()                                                        | - | 4000 | A | -
t.receive_by_lookup_id(A)                                          | - | 4000 | A | -
t.receive_many(1)                                                  | - | 4000 | A | -
c1.receive()                                                       | - | 4000 | A | -
b1.first(); b1.take()                                              | - | 4000 | A | -
t.receive_group()                                                  | - | 4000 | A | -
t.receive(0, match=Match(message_id=b"A"))                         | - | 4000 | A | -
l1 = t.lock()                                                      | - | -    | - | -
l1 = t.lock(); l1.commit()                                         | - | 4000 | A | -
l1 = t.lock(); t.lock_many(1, 0, settle=[l1])                      | - | 4000 | A | -
l1 = t.lock(); l1.abort()                                          | A | -    | - | -
l1 = t.lock(); l1.reject()                                         | - | C004 | - | C004
l1 = t.lock(0, lease=5); clock(6)                                  | A | -    | - | -
t.receive(0, transaction=x1)                                       | - | -    | - | -
t.receive(0, transaction=x1); x1.commit()                          | - | 4000 | A | -
t.receive(0, transaction=x1); x1.abort()                           | A | -    | - | -
m = t.receive(0, transaction=x1); x1.reject(t, m); x1.commit()     | - | C004 | - | C004
m = t.receive(0, transaction=x1); x1.reject(t, m); x1.abort()      | A | -    | - | -
l1 = t.lock(0, transaction=x1); l1.commit()                        | - | -    | - | -
l1 = t.lock(0, transaction=x1); l1.commit(); x1.commit()           | - | 4000 | A | -
l1 = t.lock(0, transaction=x1); l1.abort(); x1.commit()            | - | 4000 | A | -
l1 = t.lock(0, transaction=x1); l1.reject(); x1.commit()           | - | C004 | - | C004
l1 = t.lock(0, transaction=x1); l1.reject(); x1.abort()            | A | -    | - | -
t.purge()                                                          | - | C001 | - | C001
l1 = t.lock(); t.purge(); l1.commit()                              | - | C001 | - | C001
l1 = t.lock(); t.purge(); l1.abort()                               | - | C001 | - | C001
l1 = t.lock(); t.purge(); l1.reject()                              | - | C001 | - | C001
l1 = t.lock(0, lease=5); t.purge(); clock(6)                       | - | C001 | - | C001
t.receive(0, transaction=x1); t.purge(); x1.commit()               | - | 4000 | A | -
t.receive(0, transaction=x1); t.purge(); x1.abort()                | - | C001 | - | C001
t.purge(match=Match(message_id=b"A"))                              | - | C001 | - | C001
l1 = t.lock(); t.purge(match=Match()); l1.abort()                  | - | C001 | - | C001
clock(61)                                                          | - | C002 | - | C002
l1 = t.lock(0, lease=90); clock(61); l1.commit()                   | - | 4000 | A | -
l1 = t.lock(0, lease=90); clock(61); l1.abort()                    | - | C002 | - | C002
l1 = t.lock(0, lease=90); clock(61); l1.reject()                   | - | C004 | - | C004
l1 = t.lock(0, lease=30); clock(61)                                | - | C002 | - | C002
x1 = qm.transaction(lease=90); t.receive(0, transaction=x1); clock(61); x1.commit() | - | 4000 | A | -
x1 = qm.transaction(lease=90); t.receive(0, transaction=x1); clock(61); x1.abort()  | - | C002 | - | C002
t.move(A, into)                                                    | - | -    | - | -
t.move(A, into); s.receive()                                       | - | 4000 | A | -
t.move(A, into); s.purge()                                         | - | C001 | - | C001
t.move(A, into); clock(61)                                         | - | C002 | - | C002
t.move(A, into); s.move(A, home)                                   | A | -    | - | -
t.move(A, into, transaction=x1); x1.commit()                       | - | -    | - | -
t.move(A, into, transaction=x1); x1.abort()                        | A | -    | - | -
t.move(A, into, transaction=x1); t.purge(); x1.abort()             | - | C001 | - | C001
t.peek()                                                           | A | -    | - | -
b1.first(0, lock=True); b1.close()                                 | A | -    | - | -
"""
