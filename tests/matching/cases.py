"""The ids of the published cases for IBM MQ, and the reason for each case without a test."""

from __future__ import annotations

_PUBLISHED = """
A1 A2 A4 A5 A7 A8 A10 A11 A13 A14 A16 A17 A19 A20 A22 A23 A25 A26
B2 B3 B5 B6 B8 B9
C1 C2 C4 C5 C7 C8 C10 C11
D2 D3 D5 D6 D8 D9
E1 E2 E4 E5 E7 E8 E10 E11 E13 E14 E16 E17 E19 E20 E22 E23 E25 E26 E28
F1 F3 F4 F6 F7 F9 F10 F12 F13 F15 F16 F18 F19 F21 F22
G1 G2 G4 G5 G7 G8 G10 G11 G13 G14
H2 H3 H5 H6 H8 H9 H11 H12 H14 H15 H17 H18
I2 I3 I5 I6 I8 I9 I11 I12 I14 I15 I17 I18 I20 I21 I23 I24 I26 I27
J2 J3 J5 J6 J8 J9
K1 K2 K4 K5 K7 K8 K10 K11
L2 L3 L5 L6 L8 L9 L11 L12 L14 L15
M2 M3 M5 M6 M8 M9 M11 M12 M14 M15
N1 N2 N4 N5
O1 O2 O4 O5 O7 O8 O10 O11 O13 O14
P1 P2 P4 P5 P7 P8
Q1 Q2 Q4 Q5 Q7 Q8 Q10 Q11
"""
PUBLISHED = frozenset(_PUBLISHED.split())

_CALLS = "cannot be said: what excludes each other are different methods or have no common argument"
_BUFFER = "not offered: bodies are returned whole, there are no buffers to be too small"

LEFT_OUT = {
    "A19": "not offered: the sender chooses correlation ids; message ids are generated",
    "D5": "not offered: a queue has no default priority; a message has 3 unless its sender says otherwise",
    "D6": "differs: a priority outside 0..7 is refused with InvalidArgument",
    "F9": "differs: as in MSMQ a handle that may receive may also browse",
    "F19": _BUFFER,
    "H3": _CALLS + ": a GroupWriter sends only into its group",
    "H14": _CALLS + ": logical order is a GroupWriter's, and what sends without a handle (reply) has none",
    "J9": "not offered: syncpoint-if-persistent",
    "K1": _CALLS,
    "K2": _CALLS,
    "K4": "not offered: syncpoint-if-persistent",
    "K5": "not offered: mark-skip-backout",
    "K7": _CALLS,
    "K8": _CALLS,
    "L11": _CALLS + ": current and take have no timeout",
    "M11": "not offered: mark-skip-backout",
    "M12": "not offered: mark-skip-backout",
    **dict.fromkeys(("N1", "N2", "N4", "N5"), _BUFFER),
    "O4": "differs: MSMQ's timer removes an expired message, whoever comes by",
    "O7": "not offered: a cap on expiry per queue",
    "O8": "decided: time_to_be_received=0 is accepted and expires at once, as in MSMQ",
    "O14": "differs: an acknowledgement that is asked for without an administration queue is not sent, as in MSMQ",
    "P5": "differs: expired messages are removed before the quota is looked at",
    "P7": "not offered: depth events; queue_info tells the depth",
    "P8": "not offered: depth events; queue_info tells the depth",
}
