"""How often an address may give a wrong token.

``shared`` has one for all requests, and ``pages.entry`` asks it. It forgets everything at a restart, and each process
has its own. The address is the one that the server sees: behind a proxy all clients have the same, unless
X-Forwarded-For is trusted (``serve``). docs/console.md has ``WRONG`` and ``PAUSE``.
"""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

# Number of wrong tokens after which an address has to wait, and the wait in seconds since the last one.
WRONG, PAUSE = 5, 60.0
# Addresses that are remembered; beyond them the one is forgotten whose last wrong token is the oldest.
MOST = 10_000


class Attempts:
    """The wrong tokens of each address. ``clock`` returns seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.clock = clock
        # How many, and when the last one came. In the order of that time.
        self._wrong: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._wrong)

    def wait(self, address: str) -> int:
        """Seconds until this address may give a token again; 0: it may now."""
        count, last = self._wrong.get(_network(address), (0, 0.0))
        return max(math.ceil(last + PAUSE - self.clock()), 0) if count >= WRONG else 0

    def wrong(self, address: str) -> None:
        """Count a wrong token."""
        name, now = _network(address), self.clock()
        count, last = self._wrong.pop(name, (0, now))
        self._wrong[name] = (count + 1 if now < last + PAUSE else 1, now)
        if len(self._wrong) > MOST:
            self._wrong.popitem(last=False)

    def right(self, address: str) -> None:
        """Forget the wrong tokens of an address."""
        self._wrong.pop(_network(address), None)


def _network(address: str) -> str:
    """What counts as one address: in IPv6 a network of 64 bits, of which one host may use every address."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address[:60]
    if found.version == 6 and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((int(found), 64), strict=False))
    return address  # an IPv4 address that is mapped into IPv6 is one host, and all of them are in one network
