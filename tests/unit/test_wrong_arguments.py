"""Errors about wrong arguments are MqErrors that say what to pass instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

import mqredis
from mqredis import InvalidArgument, Journal, Match, Outgoing, QueueManager, RetryPolicy, Settings, codec
from mqredis.models import Message, Sent
from mqredis.models.fields import FIELDS
from mqredis.operations.context import prepared
from tests.support.backend import Backend


class Order(BaseModel):
    number: int


def wrong(call: Callable[..., object], *arguments: object, **named: object) -> object:
    """A call that type checkers refuse."""
    return call(*arguments, **named)


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "message": (
        lambda: wrong(Outgoing, Outgoing("x")),
        r"not Outgoing: send its body, as in send\(message\.body",
    ),
    "dict": (lambda: wrong(Outgoing, {"n": 1}), r"body must be bytes or str, not dict: send json\.dumps"),
    "model": (lambda: wrong(Outgoing, Order(number=1)), r"not Order: .* model\.model_dump_json\(\)"),
    "journal": (
        lambda: wrong(Outgoing, journal="dead_letter"),
        r"journal: must be a Journal, such as mqredis\.Journal\.DEAD_LETTER, not str",
    ),
    "acknowledge": (
        lambda: wrong(Outgoing, acknowledge="all"),
        "acknowledge: must be an Acknowledge, such as",
    ),
    "group id": (lambda: wrong(Outgoing, group_id=5), "group_id: must be bytes or str, not int"),
    "id of a match": (
        lambda: wrong(Match, correlation_id=5),
        "match option correlation_id: must be bytes or str, not int",
    ),
    "server": (lambda: wrong(mqredis.connect, 5), "cannot connect to an object of type int; pass a URL"),
    "attempts": (lambda: wrong(RetryPolicy, attempts=3), "RetryPolicy: attempts is computed .* immediate=2"),
    "final": (lambda: wrong(RetryPolicy, final="poisn"), "^RetryPolicy: final: Input should be 'poison'"),
    "policy": (
        lambda: wrong(RetryPolicy, cycle=3),
        "^RetryPolicy: 'cycle' does not exist: did you mean 'cycles'",
    ),
    "settings": (
        lambda: wrong(mqredis.connect, "memory://wrong", settings={"lease_seconds": 5}),
        r"settings must be a mqredis\.Settings, not dict",
    ),
    "prefix": (
        lambda: wrong(Settings, lease=3),
        "setting 'lease' does not exist: did you mean 'lease_seconds'",
    ),
    "variable": (
        lambda: Settings.from_env({"MQREDIS_LEASE_SECONDS": "abc"}),
        "^environment variable MQREDIS_LEASE_SECONDS='abc': setting lease_seconds: ",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_error_says_what_to_pass_instead(name: str) -> None:
    call, expected = CASES[name]
    with pytest.raises(InvalidArgument, match=expected) as caught:
        call()
    assert "https://" not in str(caught.value)


def test_error_of_an_explicit_value_does_not_name_the_environment_variable() -> None:
    with pytest.raises(InvalidArgument, match=r"^setting lease_seconds: "):
        Settings.from_env({"MQREDIS_LEASE_SECONDS": "abc"}, lease_seconds="def")


@pytest.mark.parametrize("name", FIELDS)
def test_none_selects_the_default(name: str) -> None:
    given: dict[str, Any] = {name: None}
    for body in (b"x", "x"):
        assert Outgoing(body, **given) == Outgoing(body)
        assert codec.encode(Outgoing(body, **given)) == codec.encode(Outgoing(body))
    assert getattr(Outgoing(b"x").replace(**given), name) == getattr(Outgoing(), name)


def test_lookup_ids_are_shown_in_hexadecimal() -> None:
    sent = Sent(lookup_id=0x0400000000000001, message_id="m", token="t")
    assert repr(sent) == str(sent) == "Sent(lookup_id=0x0400000000000001, message_id='m', token='t')"
    assert "original_lookup_id=0x0000000000000010" in repr(
        Message(
            lookup_id=1,
            queue="q",
            body=b"",
            message_id="m",
            token="t",
            sent_at=None,  # type: ignore[arg-type]  # not used by repr
            arrived_at=None,  # type: ignore[arg-type]
            original_lookup_id=16,
        )
    )


@pytest.fixture
def qm(backend: Backend) -> Any:
    with mqredis.connect(backend.client(), settings=Settings(allow_volatile=True)) as qm:
        yield qm


def test_dedup_window_without_a_key_is_refused(qm: QueueManager) -> None:
    qm.create_queue("q")
    with qm.open("q") as queue:
        with pytest.raises(InvalidArgument, match="dedup_window needs a dedup_key"):
            queue.send(b"x", dedup_window=60)
        with pytest.raises(InvalidArgument, match="dedup_window needs a dedup_key"):
            queue.send_many([b"y", Outgoing(b"x", dedup_window=60)])
        queue.send(b"x", label=None, delay=None, properties=None, priority=None, journal=Journal.NONE)
        assert [message.label for message in queue.browse()] == [""]


def test_retry_policy_is_stored_and_returned(qm: QueueManager) -> None:
    policy = RetryPolicy(immediate=0, cycles=3, final="reject")
    assert qm.create_queue("q", retry=policy).retry == policy
    with pytest.raises(
        InvalidArgument, match="property retry: RetryPolicy: 'cycle' does not exist: did you mean 'cycles'"
    ):
        wrong(qm.update_queue, "q", retry={"cycle": 3})
    assert qm.queue_info("q").retry == policy


@pytest.mark.parametrize("name", ["delay", "factor", "max_delay", "jitter"])
@pytest.mark.parametrize("value", ["1", True, None])
def test_retry_policy_takes_only_numbers(name: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match=f"RetryPolicy: {name}: .* valid number"):
        wrong(RetryPolicy, **{name: value})
    assert getattr(RetryPolicy(**{name: 1}), name) == 1.0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "variable, setting, argument, where",
    [
        ("redis://environment", None, None, "redis://environment"),
        ("redis://environment", "redis://settings", None, "redis://settings"),
        ("redis://environment", "redis://settings", "redis://argument", "redis://argument"),
        ("", None, None, "embedded://"),
    ],
)
def test_url_is_taken_from_argument_settings_or_environment(
    monkeypatch: pytest.MonkeyPatch, variable: str, setting: str | None, argument: str | None, where: str
) -> None:
    monkeypatch.setenv("MQREDIS_URL", variable)
    _, found = prepared(argument, None, Settings(url=setting))
    assert found == where


def test_empty_url_in_the_environment_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MQREDIS_URL", "")
    prepared(None, None, Settings(url="redis://settings"))
    assert not caplog.messages
    prepared(None, None, Settings())
    assert caplog.messages == ["MQREDIS_URL is empty, so this client uses the private server of this machine"]
