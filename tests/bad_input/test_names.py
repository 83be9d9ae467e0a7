"""Names of queues, subqueues, managers, transactions and tags."""

from __future__ import annotations

import pytest

import mqredis
from mqredis.errors import InvalidArgument, InvalidName, QueueNotFound
from mqredis.settings import Settings

BAD = {
    "empty": "",
    "10kB": "x" * 10_000,
    "125-characters": "x" * 125,
    "open-brace": "a{b",
    "close-brace": "a}b",
    "hash-tag": "{other}",
    "newline": "a\nb",
    "crlf": "a\r\nDEL b",
    "nul": "a\0b",
    "escape": "a\x1b[2Jb",
    "delete": "a\x7f",
    "star": "a*",
    "question-mark": "a?",
    "brackets": "[a]",
    "space-before": " a",
    "space-behind": "a ",
    "lone-surrogate": "\ud800",
    "none": None,
    "number": 5,
    "bytes": b"q",
    "list": ["q"],
}
bad_names = pytest.mark.parametrize("name", BAD.values(), ids=BAD.keys())
# For arguments whose None selects a default.
CHOSEN = {word: name for word, name in BAD.items() if name is not None}
chosen_names = pytest.mark.parametrize("name", CHOSEN.values(), ids=CHOSEN.keys())


@bad_names
def test_create_queue_refuses_invalid_names(bench, name):
    with bench.refuses(InvalidName):
        bench.qm.create_queue(name)


@bad_names
def test_other_calls_refuse_invalid_queue_names(bench, name):
    for call in (
        bench.qm.open,
        bench.qm.queue_info,
        bench.qm.delete_queue,
        lambda n: bench.qm.update_queue(n, label="x"),
    ):
        with bench.refuses(InvalidName):
            call(name)


def test_comma_is_refused_outside_open(bench):
    """A comma separates several queues, which can only be opened together, for sending."""
    for call in (
        bench.qm.create_queue,
        bench.qm.queue_info,
        bench.qm.delete_queue,
        lambda n: bench.qm.update_queue(n, label="x"),
    ):
        with bench.refuses(InvalidName):
            call("q,r")


@chosen_names
def test_invalid_manager_name_is_refused(bench, name):
    before = bench.raw.dbsize()
    with pytest.raises(InvalidArgument):
        mqredis.connect(bench.raw, manager=name, settings=Settings(allow_volatile=True))
    assert bench.raw.dbsize() == before


@chosen_names
def test_invalid_transaction_id_is_refused(bench, name):
    with bench.refuses(InvalidArgument):
        bench.qm.transaction(id=name)


@pytest.mark.parametrize("path", ["q;", ";s", "q;a;b", "q;" + "s" * 33, "q;a*", "q;\n", "q; s", "t;;s"])
def test_invalid_subqueue_path_is_refused(bench, path):
    with bench.refuses(InvalidName, QueueNotFound):
        bench.qm.open(path)


@pytest.mark.parametrize("path", ["q;s", "q;journal"])
def test_subqueue_cannot_be_created(bench, path):
    with bench.refuses(InvalidName):
        bench.qm.create_queue(path)


@pytest.mark.parametrize("tag", [5, b"t", ["t"], 1.5])
def test_tag_of_another_type_is_refused(bench, tag):
    with bench.refuses(InvalidArgument):
        bench.q.receive(0, tag=tag)
    with bench.refuses(InvalidArgument):
        bench.q.cancel(tag)


@pytest.mark.parametrize("pattern", [5, b"*", ["*"]])
def test_pattern_of_another_type_is_refused(bench, pattern):
    with bench.refuses(InvalidArgument):
        bench.qm.queues(pattern)


def test_glob_pattern_finds_only_queues_of_the_manager(bench):
    assert [i.name for i in bench.qm.queues("*") if "$" not in i.name and not i.name.startswith("system")]
    assert bench.qm.queues("[^") == []
    assert bench.qm.queues("mq:*") == []


@pytest.mark.parametrize("name", ["a%20b", "%", "a:b", "q:a", "../q", "a\u202eb", "ﬁ", "🐇" * 124, "-#blob"])
def test_unusual_but_valid_names_are_accepted(bench, name):
    bench.qm.create_queue(name)
    with bench.qm.open(name) as queue:
        queue.send(b"A")
        assert queue.receive(0).queue == queue.name
    bench.qm.delete_queue(name)


def test_composed_and_decomposed_names_are_the_same_queue(bench):
    bench.qm.create_queue("Gr\u00f6\u00dfe")
    with bench.refuses(mqredis.QueueExists):
        bench.qm.create_queue("Gro\u0308\u00dfe")
