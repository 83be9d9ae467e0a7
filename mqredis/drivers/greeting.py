"""What a driver asks over a new connection: which server process answers, whether it keeps data, how it runs scripts.

``drivers.calls`` and ``drivers.calls_aio`` run ``greet`` over each new connection, before its first call; they and the
waits ask ``refusal`` what an error means. The deploy step probes for functions with the same command. ``cli/acl.py``
has the rights for what is asked.

The user of the connection may lack the permission. Then the driver continues, and logs what it could not check. If the
server is only busy, the try fails, and the next one greets again.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from redis import exceptions as rx

from mqredis.drivers.net.redaction import redact
from mqredis.drivers.net.wire import NO_FUNCTION, Fault, as_text, fault_of
from mqredis.errors import UnsafeServer
from mqredis.operations import server_checks
from mqredis.steps import Command, Refused, Steps, procedure

if TYPE_CHECKING:
    from mqredis.drivers.core import Core

log = logging.getLogger("mqredis")

# The first Redis that replicates what scripts did and not the scripts, so that they may write after TIME.
OLDEST = 5
# A function that no library has: the kind of refusal tells what the server knows and what the user may do.
FUNCTION_PROBE = ("FCALL", "mqredis_probe", "0")
# A script that no server has.
SCRIPT_PROBE = ("EVALSHA", "0" * 40, "0")


# With these the server says that it may carry the command out later, or that another node does.
_NOT_NOW = frozenset((Fault.LOST, Fault.BUSY, Fault.MOVED, Fault.ASK, Fault.NOT_READY))


def refusal(error: Exception) -> Refused | None:
    """Why a server does not carry out a command, without secrets; None: it may do so when it is asked again, or the
    connection is of no use, as without a password (AuthenticationError)."""
    fault = fault_of(error)
    if fault in _NOT_NOW or not isinstance(error, rx.ResponseError):
        return None
    return Refused(redact(error), fault is Fault.REFUSED)


@procedure
def greet(core: Core, memory: bool) -> Steps[str]:
    """Tell the core about the server of a connection. Returns the server's run_id, "" if the user may not see it.

    ``memory``: the server is a fakeredis in this process.

    Raises:
        UnsafeServer: the server is too old.
    """
    core.reached, core.unreachable = True, False
    reply = yield Command(("INFO", "server"))
    run_id = "" if isinstance(reply, Refused) else run_id_of(reply)
    if core.unknown_server(run_id):
        nothing = yield from server_checks.keeps_nothing()
        core.vetted(run_id, bool(nothing))
        if nothing is None:
            log.warning(
                "cannot check whether this server keeps anything on disk: INFO names no append-only log, and "
                "this user may not read the server's setting `save`"
            )
        if not run_id:
            log.warning(
                "cannot check which process of the server answers, since this user may not run INFO: the "
                "loss of changes at a restart is noticed later"
            )
    if core.forms.run_id != run_id:
        functions = core.settings.functions != "off"
        shebang, functions = yield from _forms(functions, core.settings.read_only)
        # fakeredis has functions, but does not understand that line.
        core.forms.learn(run_id, shebang and not memory, functions)
    return run_id


def run_id_of(info: Any) -> str:
    """run_id out of the text of ``INFO server``. Raises UnsafeServer if the scripts would fail half-way there."""
    text = as_text(info)
    version = re.search(r"redis_version:((\d+)[\d.]*)", text)
    if version and int(version[2]) < OLDEST:
        raise UnsafeServer(
            f"Redis {version[1]} is too old: its scripts may not write once they have asked for the time. mqredis "
            "is made for Redis 6.2 and newer, and Valkey"
        )
    found = re.search(r"run_id:(\w+)", text)
    return found[1] if found else ""


def _forms(functions: bool, reading: bool) -> Steps[tuple[bool, bool]]:
    """Does the server understand ``#!lua`` in front of a script (Redis 7, Valkey), and may this user call functions?

    One command tells both, since Redis got both in one release: a server without functions does not know FCALL, and a
    server with functions answers that the function is missing or that the user may not call it.
    """
    suffix = "_RO" if reading else ""
    reply = yield Command((FUNCTION_PROBE[0] + suffix, *FUNCTION_PROBE[1:]))
    if not isinstance(reply, Refused):
        return False, False
    may_call = NO_FUNCTION in reply.text
    if may_call and functions:
        # A function that cannot be loaded is run by EVALSHA, so functions are used only if the user may call that, too.
        reply = yield Command((SCRIPT_PROBE[0] + suffix, *SCRIPT_PROBE[1:]))
        functions = not (isinstance(reply, Refused) and reply.forbidden)
    return may_call or reply.forbidden, may_call and functions
