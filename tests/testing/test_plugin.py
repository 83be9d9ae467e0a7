"""The pytest plugin as its users run it: each test here starts its own pytest."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.support.server import RedisServer

pytest_plugins = ["pytester"]

# In an environment where mqredis is installed pytest finds the plugin itself, and naming it again is an error.
FOUND = any(found.value == "pytest_mqredis" for found in entry_points(group="pytest11"))
LOAD = () if FOUND else ("-p", "pytest_mqredis")

SUITE = """
    import pytest
    import mqredis
    from mqredis.testing import assert_nothing_sent, assert_sent, drain

    @pytest.fixture
    def orders(mqredis_manager):
        mqredis_manager.create_queue("orders")
        with mqredis_manager.open("orders") as queue:
            yield queue

    def test_assert_sent(orders):
        orders.send(b"one", properties={"n": 1})
        orders.send("two", priority=7)
        assert_sent(orders, "two", priority=7)
        assert_sent(orders, count=2)
        assert_sent(orders, properties={"n": 1}, count=1)
        assert [m.body for m in drain(orders)] == [b"two", b"one"]
        assert_nothing_sent(orders)

    def test_tests_are_isolated(orders):
        assert_nothing_sent(orders)

    def test_failures_list_the_messages(orders):
        orders.send(b"one")
        with pytest.raises(AssertionError, match=r"at least one message with body=b'two'.*\\n.*b'one'"):
            assert_sent(orders, "two")
        with pytest.raises(AssertionError, match="should be empty; it holds 1"):
            assert_nothing_sent(orders)
        with pytest.raises(AssertionError, match="0 match"):
            assert_sent(orders, properties={"n": True})
        with pytest.raises(mqredis.InvalidArgument, match="body must be bytes or str, not dict: .*json.loads"):
            assert_sent(orders, {"item": "tea"})  # type: ignore[arg-type]
        with pytest.raises(mqredis.InvalidArgument, match="count must be an int, not '1'"):
            assert_sent(orders, count="1")  # type: ignore[arg-type]
        with pytest.raises(mqredis.InvalidArgument, match="properties must be a mapping, not list"):
            assert_sent(orders, properties=["n"])  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="no field 'colour'"):
            assert_sent(orders, colour="red")

    def test_clock_advances_delays_and_expiry(orders, mqredis_clock):
        orders.send(b"later", delay=3600)
        orders.send(b"short-lived", time_to_be_received=60)
        mqredis_clock.advance(61)
        assert drain(orders) == []
        mqredis_clock.advance(3600)
        assert [m.body for m in drain(orders)] == [b"later"]
        for wrong in (-1, "60", None):
            with pytest.raises(mqredis.InvalidArgument, match="seconds"):
                mqredis_clock.advance(wrong)

    def test_clock_ends_leases(orders, mqredis_clock):
        orders.send(b"x")
        lock = orders.lock(timeout=0, lease=30)
        mqredis_clock.advance(31)
        with pytest.raises(mqredis.LockLost, match="its lease is over"):
            lock.commit()
        assert orders.lock(timeout=0).message.delivery_count == 2

    def test_application_that_connects_by_itself(orders, mqredis_environment, mqredis_clock):
        with mqredis.connect() as own, own.open("orders") as queue:
            assert own.name == mqredis_environment.manager
            assert mqredis.Settings.from_env() == mqredis_environment
            queue.send(b"x", delay=60)
            own.advance_clock(60)
        assert_sent(orders, b"x")

    def test_connection_with_the_settings_alone(mqredis_settings):
        with mqredis.connect(settings=mqredis_settings) as own:
            own.create_queue("orders")

    def test_closes_the_manager(mqredis_manager):
        mqredis_manager.create_queue("orders")
        mqredis_manager.close()

    def test_drain_of_a_transactional_queue(mqredis_manager):
        mqredis_manager.create_queue("t", transactional=True)
        with mqredis_manager.open("t") as queue:
            with mqredis_manager.transaction() as tx:
                queue.send_many([b"a", b"b"], transaction=tx)
            assert [m.body for m in drain(queue)] == [b"a", b"b"]

    {mark}
    async def test_async_manager(mqredis_async_manager, orders):
        async with mqredis_async_manager.open("orders") as queue:
            await queue.send(b"from a coroutine")
            for helper in (assert_sent, assert_nothing_sent, drain):
                with pytest.raises(mqredis.InvalidArgument, match="not mqredis.asyncio.*: open the same queue with"):
                    helper(queue)
        assert_sent(orders, "from a coroutine", count=1)
"""


@pytest.fixture
def pytester_project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\nasyncio_default_fixture_loop_scope = 'function'")
    return pytester


def run(pytester_project: pytest.Pytester, suite: str, *arguments: str) -> pytest.RunResult:
    pytester_project.makepyfile(suite)
    return pytester_project.runpytest_subprocess("-q", *LOAD, *arguments)


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_suite_passes_on_fakeredis(pytester_project, mode):
    mark = "@pytest.mark.asyncio" if mode == "strict" else ""
    result = run(pytester_project, SUITE.replace("{mark}", mark), f"--asyncio-mode={mode}")
    result.assert_outcomes(passed=10)


def test_suite_passes_on_a_server_and_leaves_no_keys(pytester_project, redis_server: RedisServer):
    result = run(
        pytester_project,
        SUITE.replace("{mark}", ""),
        "--asyncio-mode=auto",
        "--mqredis-url",
        redis_server.url,
    )
    result.assert_outcomes(passed=10)
    with redis_server.client() as client:
        assert client.keys("*") == []


def test_settings_can_be_overridden(pytester_project):
    suite = """
        import pytest

        @pytest.fixture
        def mqredis_settings(mqredis_settings):
            return mqredis_settings.model_copy(update={"lease_seconds": 5.0})

        def test_it(mqredis_manager):
            assert mqredis_manager._context.settings.lease_seconds == 5.0
    """
    run(pytester_project, suite).assert_outcomes(passed=1)


def test_help_names_the_option(pytester_project):
    pytester_project.runpytest_subprocess(*LOAD, "--help").stdout.fnmatch_lines(["*--mqredis-url*"])


def test_run_without_the_fixtures_does_not_import_mqredis(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing(pytestconfig):
            assert pytestconfig.pluginmanager.hasplugin("pytest_mqredis") or "pytest_mqredis" in sys.modules
            assert not [name for name in sys.modules if name.partition(".")[0] in ("mqredis", "redis", "pydantic")]
        """
    )
    pytester.runpytest_subprocess(*LOAD, "-p", "no:hypothesispytest").assert_outcomes(passed=1)


def test_former_name_of_the_plugin_still_loads_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(mqredis_manager): assert mqredis_manager.name.startswith('test-')")
    without = ("-p", "no:mqredis") if FOUND else ()
    pytester.runpytest_subprocess(*without, "-p", "mqredis.testing.plugin").assert_outcomes(passed=1)
