"""Celery's own integration tests, from its source distribution, with a broker of our choice: ``make celery``.

    python -m tools.celery_suite [--broker mqredis|redis] [file ...] [-- arguments of pytest]

Ends with 1 if a test fails that is not in KNOWN. The results are always kept in Redis.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from tests.support.server import RedisServer

ROOT = Path(__file__).resolve().parents[1]
SOURCES = Path(os.environ.get("MQREDIS_TEST_KOMBU_SOURCES", ROOT / "build" / "kombu")).resolve()
FILES = ("test_tasks", "test_inspect", "test_worker", "test_canvas")

_UNSEEN = (
    "the worker's log records do not reach pytest's caplog in this run; the same with the Redis transport"
)
# Tests that fail on mqredis, and why. docs/celery.md compares them with Celery's Redis transport.
KNOWN = {
    "test_inspect.test_Inspect::test_scheduled": (
        "it looks for tasks with an ETA in the worker's memory; here they wait in the broker (native_delay)"
    ),
    "test_worker::test_concurrency_auto_sizes_prefork_pool": (
        "its worker is a process without an application, so nothing imports mqredis.kombu there"
    ),
    "test_tasks.test_trace_log_arguments::test_task_success": _UNSEEN,
    "test_tasks.test_trace_log_arguments::test_task_failed": _UNSEEN,
    "test_canvas.test_chain::test_chord_header_id_duplicated_on_rabbitmq_msg_duplication[redis-group-ids]": (
        "Celery expects it to fail where the address of the broker begins with redis"
    ),
}


def run(broker: str, files: Sequence[str], more: Sequence[str]) -> dict[str, str]:
    """Run the files. Returns the outcome of each test: passed, failed, skipped."""
    (source,) = SOURCES.glob("celery-*/t/integration")  # `make kombu` brings them
    with RedisServer(tcp=True) as server, tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        results = server.tcp_url  # database 0: some tests look there themselves
        url = results.removesuffix("/0") + "/1"
        environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "PYTHONPATH": str(ROOT),
            "MQREDIS_ALLOW_VOLATILE": "1",
            "TEST_BROKER": url if broker == "redis" else url.replace("redis://", "mqredis://"),
            "TEST_BACKEND": results,
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": str(server.port),
        }
        command = [sys.executable, "-m", "pytest", "-p", "mqredis.kombu", "-p", "no:cacheprovider", "-q"]
        command += [f"--junitxml={report}", *(f"t/integration/{name}.py" for name in files), *more]
        subprocess.run(command, cwd=source.parents[1], env=environment, check=False)
        return {_name(case): _outcome(case) for case in ET.parse(report).iter("testcase")}  # noqa: S314 - our own


def _name(case: ET.Element) -> str:
    return f"{case.get('classname', '').removeprefix('t.integration.')}::{case.get('name')}"


def _outcome(case: ET.Element) -> str:
    found = {child.tag for child in case}
    return "failed" if found & {"failure", "error"} else "skipped" if "skipped" in found else "passed"


def main() -> int:
    """Run the suite, and print the failures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", choices=("mqredis", "redis"), default="mqredis")
    parser.add_argument("files", nargs="*", default=FILES, help=f"default: {' '.join(FILES)}")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:end])
    outcomes = run(arguments.broker, arguments.files, words[end + 1 :])
    failed = sorted(name for name, outcome in outcomes.items() if outcome == "failed")
    known = KNOWN if arguments.broker == "mqredis" else {}
    for name in failed:
        print(
            f"{'known' if name in known else 'FAILED'}: {name}"
            + (f": {known[name]}" if name in known else "")
        )
    counts = {kind: list(outcomes.values()).count(kind) for kind in ("passed", "failed", "skipped")}
    print(f"{arguments.broker}: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
    unexpected = [name for name in failed if name not in known]
    return 1 if not outcomes or (unexpected and arguments.broker == "mqredis") else 0


if __name__ == "__main__":
    sys.exit(main())
