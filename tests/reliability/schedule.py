"""All orders in which the calls of a few clients can reach the broker, with one of them crashing or losing a message.

A schedule is a sequence of events, written as text so that one line reproduces it: ``A0 B0 A0r B1`` is client A's
first call, B's first, A's first once more (its reply was lost), B's second. The letters behind a number:

    (none) the call is made and answered          r  it is repeated with the same token: the reply was lost
    l      it is made, its reply is lost           q  the client asks for its outcome instead of repeating it
    d      it is lost on the way: not carried out  c  a copy of it arrives, out of the network's memory
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import factorial, prod

# client, number of its step, what happens
Event = tuple[str, int, str]


@dataclass(frozen=True)
class Variant:
    """What goes wrong: the events of each client in their order, and a late copy behind the event ``anchor``."""

    name: str
    lines: tuple[tuple[Event, ...], ...]
    anchor: Event | None = None
    copy: Event | None = None

    @property
    def count(self) -> int:
        """How many orders there are, counted as if a copy might arrive anywhere."""
        lengths = [len(line) for line in self.lines]
        merges = factorial(sum(lengths)) // prod(factorial(n) for n in lengths)
        return merges * (sum(lengths) + 1) if self.copy else merges


def variants(clients: Sequence[tuple[str, int]], pairs: bool = True) -> Iterator[Variant]:
    """No fault; each client crashing at each point; each call losing request or reply; pairs of crashes."""
    plain = {name: tuple((name, n, "") for n in range(steps)) for name, steps in clients}

    def lines(**changed: tuple[Event, ...]) -> tuple[tuple[Event, ...], ...]:
        return tuple(changed.get(name, plain[name]) for name, _ in clients)

    yield Variant("no fault", lines())
    for name, steps in clients:
        own = plain[name]
        for n in range(steps):
            lost, late = (name, n, "l"), (name, n, "d")
            before, after = own[:n], own[n + 1 :]
            yield Variant(f"{name} crashes before {n}", lines(**{name: before}))
            again = (*before, lost, (name, n, "r"), *after)
            yield Variant(f"{name} loses reply {n}, repeats", lines(**{name: again}))
            asked = (*before, lost, (name, n, "q"), *after)
            yield Variant(f"{name} loses reply {n}, asks", lines(**{name: asked}))
            copy = (name, n, "c")
            yield Variant(f"{name} sends {n} twice", lines(), own[n], copy)
            never = (*before, late, (name, n, "q"), *after)
            yield Variant(
                f"{name} loses request {n}, asks, it arrives late", lines(**{name: never}), late, copy
            )
    if pairs:
        for at, (first, steps) in enumerate(clients):
            for second, more in clients[at + 1 :]:
                for i in range(steps):
                    for k in range(more):
                        both = {first: plain[first][:i], second: plain[second][:k]}
                        yield Variant(f"{first} crashes before {i}, {second} before {k}", lines(**both))


def merges(lines: Sequence[Sequence[Event]]) -> Iterator[list[Event]]:
    """Every order that keeps each line's own."""
    at = [0] * len(lines)
    out: list[Event] = []

    def step() -> Iterator[list[Event]]:
        done = True
        for n, line in enumerate(lines):
            if at[n] < len(line):
                done = False
                out.append(line[at[n]])
                at[n] += 1
                yield from step()
                at[n] -= 1
                out.pop()
        if done:
            yield list(out)

    return step()


def all_of(variant: Variant) -> Iterator[list[Event]]:
    """Every schedule of a variant."""
    for order in merges(variant.lines):
        if variant.copy is None or variant.anchor is None:
            yield order
        else:
            for place in range(order.index(variant.anchor) + 1, len(order) + 1):
                yield [*order[:place], variant.copy, *order[place:]]


def one_of(variant: Variant, rng: random.Random) -> list[Event]:
    """A schedule of a variant, by chance: every merge is equally likely."""
    left = [list(line) for line in variant.lines]
    order: list[Event] = []
    while any(left):
        line = rng.choices(left, weights=[len(line) for line in left])[0]
        order.append(line.pop(0))
    if variant.copy is not None and variant.anchor is not None:
        order.insert(rng.randint(order.index(variant.anchor) + 1, len(order)), variant.copy)
    return order


def text(events: Sequence[Event]) -> str:
    """One line that names a schedule."""
    return " ".join(f"{client}{n}{how}" for client, n, how in events)


def parse(line: str) -> list[Event]:
    """The inverse of :func:`text`."""
    return [(word[0], int(word[1:].rstrip("lrdqc")), word[1:].lstrip("0123456789")) for word in line.split()]
