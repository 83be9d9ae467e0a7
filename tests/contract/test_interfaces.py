"""The sync and the asyncio interface: same names, same signatures, same first line of documentation."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

from tools import generate_blocking

SYNC = importlib.import_module("mqredis")
ASYNC = importlib.import_module("mqredis.asyncio")

CLASSES = ("QueueManager", "Queue", "Cursor", "Transaction", "LockedMessage", "Browser")

# What issue and design promise; an interface may have more, but both must have the same.
PROMISED = {
    "QueueManager": {
        "create_queue", "queue_info", "update_queue", "delete_queue", "queues", "open", "transaction",
        "resolve", "unknown", "throttle", "set_quota", "info", "doctor", "advance_clock", "maintain", "close",
    },
    "Queue": {
        "name", "send", "send_many", "receive", "receive_many", "peek", "browse", "lock", "lock_many",
        "receive_by_lookup_id", "lock_by_lookup_id", "peek_by_lookup_id", "cursor", "move", "purge", "cancel",
        "close",
    },
    "Cursor": {"peek", "peek_next", "receive", "lock", "reset", "close"},
    "Transaction": {"id", "prepare", "commit", "abort", "extend", "reject"},
    "LockedMessage": {"message", "commit", "abort", "reject", "extend", "fence", "expires_at"},
}  # fmt: skip


def members(cls: type) -> dict[str, Any]:
    """Public attributes that the class defines itself or inherits from ours."""
    return {
        name: value
        for base in reversed(cls.__mro__)
        if base.__module__.startswith("mqredis")
        for name, value in vars(base).items()
        if not name.startswith("_")
    }


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


def first_line(thing: Any) -> str:
    line = (inspect.getdoc(thing) or "").strip().split("\n")[0]
    return line.replace("async with", "with").replace("await ", "")


def pairs() -> list[Any]:
    out = [pytest.param(SYNC.connect, ASYNC.connect, id="connect")]
    for name in CLASSES:
        sync, twin = members(getattr(SYNC, name)), members(getattr(ASYNC, name))
        out += [pytest.param(sync[m], twin.get(m), id=f"{name}.{m}") for m in sorted(sync)]
    return out


@pytest.mark.parametrize("name", CLASSES)
def test_both_interfaces_have_the_same_members(name):
    sync, twin = members(getattr(SYNC, name)), members(getattr(ASYNC, name))
    assert set(sync) == set(twin)
    instance_made = {"id", "name", "message", "fence", "expires_at"}  # may be attributes of the instance
    assert PROMISED.get(name, set()) - instance_made <= set(sync)


@pytest.mark.parametrize("sync, twin", pairs())
def test_both_interfaces_have_the_same_signature(sync, twin):
    assert twin is not None
    assert type(sync) is type(twin)
    if callable(sync):
        assert parameters(sync) == parameters(twin)


@pytest.mark.parametrize("sync, twin", pairs())
def test_both_interfaces_have_the_same_first_docstring_line(sync, twin):
    if inspect.isroutine(sync) or isinstance(sync, property):
        assert first_line(sync) == first_line(twin)
        assert first_line(sync)


@pytest.mark.parametrize("name", CLASSES)
def test_context_managers_of_both_interfaces_correspond(name):
    sync, twin = getattr(SYNC, name), getattr(ASYNC, name)
    assert hasattr(sync, "__enter__") == hasattr(twin, "__aenter__")
    assert hasattr(sync, "__exit__") == hasattr(twin, "__aexit__")
    assert not hasattr(twin, "__enter__")


def test_every_name_in_all_exists():
    for module in (SYNC, ASYNC):
        for name in module.__all__:
            assert hasattr(module, name), name


def test_package_exports_errors_and_models():
    errors = importlib.import_module("mqredis.errors")
    wanted = {n for n, v in vars(errors).items() if isinstance(v, type) and issubclass(v, errors.MqError)}
    wanted |= {
        "Message",
        "QueueProperties",
        "QueueInfo",
        "Match",
        "Outgoing",
        "Seek",
        "Access",
        "Share",
        "Settings",
    }
    assert wanted <= set(SYNC.__all__)


@pytest.mark.parametrize("name", CLASSES)
def test_asyncio_methods_that_call_the_server_are_awaitable(name):
    """No asyncio method may block the loop: a method that runs an operation is a coroutine or returns an awaitable."""
    for member, value in members(getattr(ASYNC, name)).items():
        if inspect.isfunction(value) and "_run(" in inspect.getsource(inspect.unwrap(value)):
            wrapped = inspect.unwrap(value)
            ready = inspect.iscoroutinefunction(wrapped) or inspect.isasyncgenfunction(wrapped)
            answers = str(inspect.signature(value).return_annotation).split("[")[0]
            module = importlib.import_module(wrapped.__module__)
            assert ready or hasattr(getattr(module, answers, None), "__await__"), f"{name}.{member} blocks"


def test_blocking_interface_equals_the_output_of_the_generator():
    for path, text in generate_blocking.generate().items():
        assert path.read_text() == text, f"{path} is stale: run `make format`"
