"""The threads of a client share its handles and their locks: one may change what another goes through."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

import mqredis
from mqredis import scripts
from mqredis.commands.address import Address
from mqredis.commands.settlement import COMMIT
from mqredis.drivers.forms import ScriptForms
from mqredis.keys import ManagerKeys
from mqredis.models import Access, Share
from mqredis.operations import browser
from mqredis.operations.context import Context
from mqredis.operations.open_queue import Handle
from mqredis.operations.settle import forget, give_back_all
from mqredis.settings import Settings

MANY = 5_000


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def context() -> Context:
    return Context(ManagerKeys("m"), Settings())


def opened(context: Context, number: int) -> Handle:
    address = Address(context.keys, "q", "1")
    return context.handle(Handle(context, address, str(number), Access.ALL, Share.DENY_NONE, "", 10_000))


def beside(change: Callable[[], object], work: Callable[[], object]) -> None:
    """Do some work often, while another thread changes what it goes through."""
    done = threading.Event()

    def change_on() -> None:
        while not done.is_set():
            change()

    thread = threading.Thread(target=change_on)
    thread.start()
    try:
        for _ in range(20):
            work()
    finally:
        done.set()
        thread.join()


def test_queues_are_opened_while_the_client_is_closed(context: Context) -> None:
    handles = [opened(context, number) for number in range(MANY)]
    handles[0].locks["a"] = "1"
    beside(
        lambda: opened(context, MANY), lambda: context.holding() == handles[:1] or pytest.fail("not found")
    )


def test_messages_are_locked_while_their_handle_is_closed(context: Context) -> None:
    handle = opened(context, 1)
    handle.locks.update((str(number), "1") for number in range(MANY))
    locks = itertools.cycle(("one more", ""))

    def lock_or_settle() -> None:
        if new := next(locks):
            handle.locks[new] = "2"
        else:
            del handle.locks["one more"]

    beside(lock_or_settle, lambda: give_back_all(handle))


def test_lock_is_forgotten_by_two_threads(context: Context) -> None:
    handle = opened(context, 1)

    def settle() -> None:
        handle.locks["1"] = "2"
        forget(handle, COMMIT, "2", "1")

    def settle_often() -> None:
        for _ in range(MANY):
            settle()

    beside(settle, settle_often)


def test_script_is_formed_while_the_server_is_found_to_be_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forms = ScriptForms(read_only=False)
    forms.learn("1", shebang=True, functions=True)
    get = scripts.get

    def overtaken(name: str) -> scripts.Script:
        forms.learn("2", shebang=True, functions=True)
        return get(name)

    monkeypatch.setattr(scripts, "get", overtaken)
    forms.get("send")
    assert not forms.known


def test_browsers_that_begin_at_the_same_time_have_names_of_their_own() -> None:
    with mqredis.connect("memory://names", settings=Settings(allow_volatile=True)) as qm:
        qm.create_queue("q")
        handle = qm.open("q").handle
        others: list[browser.Browsing] = []

        def begin(session: Callable[[], str]) -> browser.Browsing:
            return qm.run(browser.start(handle, session, None, None, None, False))

        def session() -> str:
            others.append(begin(lambda: "1"))  # as if another thread ran now
            return "1"

        assert begin(session).name != others[0].name
