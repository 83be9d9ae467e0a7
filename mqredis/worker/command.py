"""``mqredis worker module:attribute``: finds the worker and runs it, in this process or in several."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mqredis.errors import InvalidArgument
from mqredis.settings import Settings
from mqredis.worker.app import Worker
from mqredis.worker.metrics import shifted
from mqredis.worker.processes import end_with_supervisor, supervise

#: How the processes of a worker are told where the broker is.
_URL = "MQREDIS_WORKER_URL"


def find(target: str) -> Worker:
    """The worker at ``module:attribute``; the current folder is searched too. Raises InvalidArgument."""
    module_name, colon, attribute = target.partition(":")
    if not colon or not module_name or not attribute:
        raise InvalidArgument(f"name the worker as module:attribute, not {target!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise  # something that the module itself imports
        raise InvalidArgument(f"there is no module {module_name!r} here") from None
    worker = getattr(module, attribute, None)
    if not isinstance(worker, Worker):
        raise InvalidArgument(f"{target} is not a mqredis.worker.Worker")
    return worker


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
    """Run a worker; its exit code. ``url`` and ``manager`` win over what the application says.

    ``configure_logs`` is called once the application was imported. ``options``: what each of several processes is given
    besides.
    """
    if processes < 1:
        raise InvalidArgument("processes must be from 1")
    if processes > 1 or reload:
        configure_logs()
        options = [*options, *(["--burst"] if burst else [])]
        for name, value in (("--manager", manager), ("--shutdown", shutdown_seconds)):
            options += [name, str(value)] if value is not None else []
        # Not as an option: a password in the URL is not for ps to see.
        environment = {**os.environ, **({_URL: url} if url is not None else {})}
        own = functools.partial(_own_options, processes > 1, health_file, metrics)
        command = [sys.executable, "-m", "mqredis", "worker", target, *options]
        return supervise(command, environment, processes, reload=reload, once=burst, own=own)
    end_with_supervisor()
    worker = find(target)
    configure_logs()
    url = url or os.environ.get(_URL)
    if url is not None:
        worker._url = url
        if worker._settings is not None:
            worker._settings = worker._settings.model_copy(update={"url": url})
    if manager is not None:
        worker._manager = manager
    if worker._url is None and worker._settings is None:
        worker._settings = Settings.from_env()
    if shutdown_seconds is not None:
        worker._shutdown_seconds = shutdown_seconds
    if health_file is not None:
        worker.health_file = health_file
    if metrics is not None:
        worker.metrics = metrics
    worker.run(burst=burst)
    return 0


def _own_options(several: bool, health_file: str | None, metrics: str | None, n: int) -> list[str]:
    """What each of several processes has for itself: a health file with a number, a port of its own."""
    options = []
    if health_file:
        options += ["--health-file", f"{health_file}.{n + 1}" if several else health_file]
    if metrics:
        options += ["--metrics", shifted(metrics, n)]
    return options


def age(health_file: str) -> float | None:
    """Seconds since a look of the worker with this health file last worked; None: it has not looked yet."""
    try:
        return max(time.time() - Path(health_file).stat().st_mtime, 0.0)
    except FileNotFoundError:
        return None
