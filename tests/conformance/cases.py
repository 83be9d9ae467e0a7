"""Every published case: its basis, and for a case without a test the reason.

Basis: L literal text; F n needs reading Dn of ``docs/semantics.md``; P rule of a neighbouring protocol or of
the application reference; C n contested, see Dn: we say which reading we took, and a product that takes
another is not wrong.
"""

from __future__ import annotations

_PUBLISHED = """
A1 F1  A2 F1  A4 L  A5 L  A7 L  A8 L  A10 L  A11 L  A13 L  A14 F
B1 F13  B2 F13  B4 F2  B5 L  B7 L  B8 L  B10 P  B11 P  B13 L
C1 L  C3 F5  C4 F3  C6 L  C7 L  C9 L  C10 C8  C12 L  C13 L  C15 F3  C16 F3  C18 L  C19 L  C21 L  C22 F1
C24 L  C25 L
P2 L  P3 L  P5 L  P6 L  P8 L  P9 L
E1 L  E2 L  E4 L  E5 L  E7 L  E8 L  E10 L  E11 L  E13 C14  E14 L  E16 F35  E17 L  E19 L  E20 F38  E22 L
E23 P  E25 L
F1 L  F3 C44  F4 L  F6 L  F7 L  F9 L  F10 L  F12 L  F13 L  F15 L  F16 L  F18 F22  F19 L  F21 L  F22 L
F24 L
G1 L  G3 L  G4 P  G6 L  G7 L  G9 L  G10 P  G12 P  G13 L
H1 L  H2 L  H4 L  H5 L  H7 L  H8 L  H10 L  H11 P  H13 P  H14 P  H16 P  H17 F19  H19 P  H20 P  H22 P  H23 P
H25 P  H26 L  H28 L  H29 F18  H31 F22
I1 L  I3 L  I4 L  I6 L  I7 L  I9 L  I10 L  I12 L  I13 L  I15 P  I16 L  I18 L
J1 F  J3 L  J4 L  J6 F17  J7 F17  J9 P  J10 P  J12 P  J13 L
K2 L  K3 C21  K5 P  K6 F21  K8 F26  K9 P  K11 P  K12 L  K14 L
M1 L  M3 P  M4 P  M6 P  M7 L  M9 P  M10 L  M12 F1  M13 P  M15 P  M16 P
N1 P  N2 P  N4 P  N5 P  N7 P  N8 P  N10 P  N11 P  N13 P  N14 P  N16 P  N17 P  N19 P  N20 P  N22 L  N23 P
"""

_WORDS = _PUBLISHED.split()
# Case id to basis.
BASIS: dict[str, str] = dict(zip(_WORDS[::2], _WORDS[1::2], strict=True))

# Cases that no test stands for, with the reason.
LEFT_OUT: dict[str, str] = {
    "G12": "not offered: a lock is an object, there are no request ids to mistake",
}
