"""Unknown names are refused with an error that suggests a similar name."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

import mqredis
import mqredis.asyncio
from mqredis import InvalidArgument, Match, MatchOptionsError, Outgoing, Settings
from mqredis.worker import Worker
from tests.support.backend import Backend


def wrong(call: Callable[..., object], **arguments: object) -> object:
    """A call that type checkers refuse."""
    return call(**arguments)


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "setting": (
        lambda: wrong(Settings, lease_secs=5),
        "setting 'lease_secs' does not exist: did you mean 'lease_seconds'",
    ),
    "other setting": (lambda: wrong(Settings, colour="red"), "setting 'colour' does not exist$"),
    "match": (
        lambda: wrong(Match, correlationid="c"),
        "match option 'correlationid' does not exist: did you mean 'correlation_id'",
    ),
    "field": (lambda: wrong(Outgoing, prio=5), "a message has no field 'prio': did you mean 'priority'"),
}


@pytest.mark.parametrize("name", CASES)
def test_unknown_name_error_suggests_a_similar_name(name: str) -> None:
    call, expected = CASES[name]
    with pytest.raises(InvalidArgument, match=expected):
        call()


def test_unknown_match_option_has_the_ibm_mq_reason_code() -> None:
    with pytest.raises(MatchOptionsError) as caught:
        Match(correlationid="c")
    assert caught.value.mqrc == 2247


def test_unknown_queue_property_error_suggests_a_similar_name(backend: Backend) -> None:
    with mqredis.connect(backend.client(), settings=Settings(allow_volatile=True)) as qm:
        with pytest.raises(InvalidArgument, match="property 'quota' does not exist: did you mean 'quota_"):
            wrong(qm.create_queue, name="q", quota=5)
        assert qm.queues() == []


def test_setting_out_of_range_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"setting lease_seconds: .* less than or equal to 604800"):
        Settings(lease_seconds=1e9)


def test_consumer_lease_has_the_limit_of_the_setting() -> None:
    with pytest.raises(InvalidArgument, match=r"lease must be finite and at most 604800 seconds"):
        Worker().consumer("q", lease=1e9)(print)


CLONES = pytest.mark.parametrize("clone", [pickle.dumps, copy.copy, copy.deepcopy])
NO_CLONE = (
    "<QueueManager 'default'> cannot be pickled or copied, since it holds connections: connect in the process"
)


@CLONES
def test_manager_cannot_be_pickled_or_copied(clone: Callable[[object], object]) -> None:
    with mqredis.connect("memory://pickled") as qm, pytest.raises(InvalidArgument, match=NO_CLONE):
        clone(qm)


@CLONES
async def test_async_manager_cannot_be_pickled_or_copied(clone: Callable[[object], object]) -> None:
    async with mqredis.asyncio.connect("memory://pickled") as qm:
        with pytest.raises(InvalidArgument, match=NO_CLONE):
            clone(qm)
