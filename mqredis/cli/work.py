"""``mqredis worker | exporter | health``.

``cli.app`` adds these commands. An option of ``worker`` has to reach the child processes, which are started from the
command line again: ``worker.command`` does that, and tests/worker/test_command.py goes through all options. Of the
common options only ``--url`` and ``--manager`` reach a worker. A worker has its own logging (``worker.logs``), so
``app`` sets up none for it. ``health`` ends with 1 if a worker does not consume. The port of ``exporter`` is the
default of ``prometheus.Exporter``, too (tests/docs/test_numbers.py), and stands in docs/metrics.md.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial

from mqredis.cli.common import Arguments, Subparsers, command, open_manager
from mqredis.cli.exits import Exit
from mqredis.cli.output import Output
from mqredis.cli.terminal import Formatter
from mqredis.cli.values import port, wait_seconds
from mqredis.drivers.net import urls


def register(subparsers: Subparsers) -> None:
    """Add the commands."""
    worker = command(subparsers, "worker", "run the worker of an application", _worker)
    worker.add_argument("target", metavar="MODULE:NAME", help="where the Worker is, such as app:worker")
    worker.add_argument("--processes", type=int, default=1, help="how many processes (default: 1)")
    worker.add_argument("--burst", action="store_true", help="end when nothing is left to do")
    worker.add_argument(
        "--reload", action="store_true", help="start anew when the code changes (development)"
    )
    worker.add_argument(
        "--shutdown", type=wait_seconds, metavar="SECONDS", help="how long handlers may go on after SIGTERM"
    )
    worker.add_argument(
        "--health-file",
        metavar="FILE",
        help="touched whenever the worker has read its queues; with several processes FILE.1, FILE.2, ...",
    )
    worker.add_argument(
        "--metrics",
        metavar="[HOST:]PORT",
        help="serve metrics of this worker for Prometheus; each further process has the next port",
    )
    worker.add_argument("--quiet", action="store_true", help="log only what is wrong")
    worker.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="of the log, unless the application configures logging (default: text)",
    )
    exporter = command(subparsers, "exporter", "serve metrics for Prometheus over HTTP", _exporter)
    exporter.add_argument("--host", default="127.0.0.1")
    exporter.add_argument("--port", type=port, default=9464)
    exporter.add_argument("--pattern", metavar="GLOB", help="only queues that match")
    health = command(
        subparsers, "health", "tell whether the broker answers, or whether a worker consumes", _health
    )
    health.add_argument("--consumer", metavar="FILE", help="the health file of a worker")
    health.add_argument(
        "--max-age",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how old its last read may be (default: 60)",
    )


def _exporter(arguments: Arguments, output: Output) -> None:
    from mqredis.prometheus import Exporter

    with (
        suppress(KeyboardInterrupt),
        open_manager(arguments) as qm,
        Exporter(qm, host=arguments.host, port=arguments.port, pattern=arguments.pattern) as exporter,
    ):
        host, port = exporter.address
        url = f"http://{urls.address(host, port)}/metrics"
        output.line(url, url=url)
        print(end="", flush=True)
        exporter.wait()


def _worker(arguments: Arguments, output: Output) -> Exit:  # noqa: ARG001 - a worker logs
    from mqredis.worker import command as worker
    from mqredis.worker.logs import JsonFormatter, configure

    if arguments.log_format == "json":
        formatter: logging.Formatter = JsonFormatter()
    else:
        formatter = Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    code = worker.run(
        arguments.target,
        url=getattr(arguments, "url", None),
        manager=getattr(arguments, "manager", None),
        processes=arguments.processes,
        burst=arguments.burst,
        reload=arguments.reload,
        shutdown_seconds=arguments.shutdown,
        health_file=arguments.health_file,
        metrics=arguments.metrics,
        configure_logs=partial(configure, formatter, quiet=arguments.quiet),
        options=(
            *(("--quiet",) if arguments.quiet else ()),
            *(("--log-format", "json") if arguments.log_format == "json" else ()),
        ),
    )
    return Exit(code) if code in (Exit.DONE, Exit.USAGE) else Exit.REFUSED


def _health(arguments: Arguments, output: Output) -> Exit:
    if arguments.consumer is None:
        with open_manager(arguments) as qm:
            info = qm.info()
        output.line(f"{info.name} answers", manager=info.name, healthy=True)
        return Exit.DONE
    from mqredis.worker.command import health_file_age

    seconds = health_file_age(arguments.consumer)
    healthy = seconds is not None and seconds <= arguments.max_age
    shown = "it has not read its queues yet" if seconds is None else f"its last read is {seconds:.1f} s old"
    output.line(
        f"{'consumes' if healthy else 'does not consume'}: {shown}",
        healthy=healthy,
        seconds_since_read=None if seconds is None else round(seconds, 3),
    )
    return Exit.DONE if healthy else Exit.REFUSED
