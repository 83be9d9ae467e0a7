"""``mqredis worker module:attribute``: finds the worker and runs it, in this process or in several.

The command line calls it (``mqredis.cli.work``). Its options have to reach the child processes: by ``run``, or by its
argument ``options``. A test in tests/worker/test_command.py goes through all of them; docs/worker.md and docs/cli.md
describe them. ``mqredis health`` calls ``health_file_age``. None of an argument: the application's own value.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from mqredis.errors import InvalidArgument, MissingDependency
from mqredis.worker.app import Worker
from mqredis.worker.metrics import with_port_offset
from mqredis.worker.processes import Supervisor, end_with_supervisor

# Environment variable that gives child processes the broker's URL.
_URL = "MQREDIS_WORKER_URL"


def find(target: str) -> Worker:
    """The worker at ``module:attribute``; the current directory is added to sys.path. Raises InvalidArgument."""
    module_name, colon, attribute = target.partition(":")
    if not colon or not module_name or module_name.startswith(".") or not attribute:
        raise InvalidArgument(f"name the worker as module:attribute, not {target!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except MissingDependency:
        raise  # the error says what to install
    except Exception as error:  # noqa: BLE001 - a module may raise anything
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        # The module itself or a package that it is in, and not a module that it imports.
        if missing is not None and (module_name + ".").startswith(missing + "."):
            raise InvalidArgument(
                f"module {module_name!r} was not found: start in its folder, and name it as in an import"
            ) from None
        raise InvalidArgument(
            f"module {module_name!r} cannot be imported:\n{_application_traceback(error)}"
        ) from None
    worker = getattr(module, attribute, None)
    if not isinstance(worker, Worker):
        workers = ", ".join(name for name, value in vars(module).items() if isinstance(value, Worker))
        raise InvalidArgument(
            f"{target!r} is not an instance of mqredis.worker.Worker; module {module_name!r} has {workers or 'none'}"
        )
    return worker


def _application_traceback(error: Exception) -> str:
    """The traceback of an error and of its causes, without the frames of the import system and of mqredis."""
    hidden = (f"{Path(__file__).parents[1]}{os.sep}", "<frozen importlib", importlib.__file__)
    whole = traceback.TracebackException.from_exception(error)
    one: traceback.TracebackException | None = whole
    while one is not None:
        shown = [frame for frame in one.stack if not frame.filename.startswith(hidden)]
        one.stack = traceback.StackSummary.from_list(shown)
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return "".join(whole.format()).rstrip()


def run(
    target: str,
    *,
    url: str | None = None,
    manager: str | None = None,
    processes: int = 1,
    burst: bool = False,
    reload: bool = False,
    shutdown_seconds: float | None = None,
    health_file: str | None = None,
    metrics: str | None = None,
    configure_logs: Callable[[], object] = lambda: None,
    options: Sequence[str] = (),
) -> int:
    """Run a worker and return the exit code. ``url`` and ``manager`` override the application's own values.

    With several processes or ``reload`` this process supervises: each child is ``mqredis worker`` again, for one
    process, with the same options. ``configure_logs`` is called after the application was imported, or before child
    processes are started. ``options``: further options of the child processes.
    """
    if processes < 1:
        raise InvalidArgument(f"processes must be at least 1, not {processes}")
    if processes > 1 or reload:
        configure_logs()
        options = [*options, *(["--burst"] if burst else [])]
        for name, value in (("--manager", manager), ("--shutdown", shutdown_seconds)):
            options += [name, str(value)] if value is not None else []
        # Not as an option: ps would show a password in the URL.
        environment = {**os.environ, **({_URL: url} if url is not None else {})}
        own = functools.partial(_child_options, processes > 1, health_file, metrics)
        command = [sys.executable, "-m", "mqredis", "worker", target, *options]
        return Supervisor(command, environment, processes, own, reload=reload, once=burst).run()
    end_with_supervisor()
    worker = find(target)
    configure_logs()
    _connect_to(worker, os.environ.get(_URL) if url is None else url, manager)
    if shutdown_seconds is not None:
        worker._shutdown_seconds = shutdown_seconds
    if health_file is not None:
        worker.health_file = health_file
    if metrics is not None:
        worker.metrics = metrics
    worker.run(burst=burst)
    return 0


def _connect_to(worker: Worker, url: str | None, manager: str | None) -> None:
    """Set the broker and the queue manager of a worker; None: its own."""
    if url is not None:
        worker._url = url
        if worker._settings is not None:
            worker._settings = worker._settings.model_copy(update={"url": url})
    if manager is not None:
        worker._manager = manager


def _child_options(several: bool, health_file: str | None, metrics: str | None, n: int) -> list[str]:
    """The options of the ``n``-th child process, from 0, that differ: its health file and the port of its metrics."""
    options = []
    if health_file:
        options += ["--health-file", f"{health_file}.{n + 1}" if several else health_file]
    if metrics:
        options += ["--metrics", with_port_offset(metrics, n)]
    return options


def health_file_age(health_file: str) -> float | None:
    """Seconds since the worker last read from its queues successfully; None: not yet."""
    try:
        return max(time.time() - Path(health_file).stat().st_mtime, 0.0)
    except FileNotFoundError:
        return None
