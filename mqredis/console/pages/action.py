"""The form of an action, and what happens when it is sent."""

from __future__ import annotations

import json
import logging
import secrets

from starlette.responses import Response

from mqredis.console import log
from mqredis.console.actions import REGISTRY
from mqredis.console.actions.base import OPERATOR, Action, Preview, Values
from mqredis.console.security import Forbidden
from mqredis.console.visit import Visit
from mqredis.errors import EnqueueRefused, MqError, QueueNotFound

logger = logging.getLogger("mqredis")


def _action(visit: Visit) -> Action:
    """The action in the address. Raises QueueNotFound, and Forbidden if the visitor may not carry it out."""
    name = visit.request.path_params["action"]
    if name not in REGISTRY:
        raise QueueNotFound(f"there is no action {name!r:.60}")
    if not visit.may(name):
        raise Forbidden("You may read this console, but not carry out this action.")
    return REGISTRY[name]


def _form(
    visit: Visit, action: Action, values: Values, preview: Preview | None, wrong: MqError | str | None = None
) -> Response:
    path, arguments = action.then(values)
    return visit.page(
        "action.html",
        400 if wrong else 200,
        action=action,
        preview=preview,
        values={**(preview.values or {} if preview else {}), **values},
        target=values.get("queue", ""),
        wrong=wrong,
        # A form that is sent again after an error is another action.
        token=secrets.token_urlsafe(18),
        back=visit.link(path, **arguments),
    )


async def confirm(visit: Visit) -> Response:
    """The form of an action, with what it would touch."""
    action = _action(visit)
    try:
        preview = await action.preview(await visit.manager(), visit.query)
    except MqError as error:
        return _form(visit, action, visit.query, None, error)
    return _form(visit, action, visit.query, preview)


async def carry_out(visit: Visit) -> Response:
    """Carry out an action once for each form, write it to the log, and go to the page that shows the result.

    "Show what it would touch" (field ``check``) only counts again.
    """
    action = _action(visit)
    values = await visit.form()
    manager = await visit.manager()
    queue, token = values.get("queue", ""), values.get("token", "")
    try:
        preview = await action.preview(manager, values)
    except MqError as error:
        # The first sending of the form may have removed what it names.
        if token and await log.outcome(manager, token):
            return _done(visit, action, values, token)
        return _form(visit, action, values, None, error)
    if "check" in values:
        return _form(visit, action, values, preview)
    if action.destroys and values.get("confirm", "").strip() != queue:
        return _form(visit, action, values, preview, "Nothing was done: type the queue's name to confirm.")
    if not token:
        return _form(
            visit, action, values, preview, "Nothing was done: the form is incomplete. Send it again."
        )
    if await _begin(visit, action, values, token):
        who = (visit.visitor.name, action.name, queue)
        try:
            text = await action.run(manager, {**values, OPERATOR: visit.visitor.name})
        except MqError as error:
            await _end(visit, token, who, "failed", f"{type(error).__name__}: {error}")
            return _form(visit, action, values, preview, error)
        await _end(visit, token, who, "done", text)
    return _done(visit, action, values, token)


async def _begin(visit: Visit, action: Action, values: Values, token: str) -> bool:
    """Write to the log that an action begins. False: its form was sent before. Raises EnqueueRefused."""
    names = {field.name for field in action.fields} - {"body"}
    about = {name: values[name] for name in sorted(names) if values.get(name)}
    who = (visit.visitor.name, action.name, values.get("queue", ""))
    try:
        return await log.begin(await visit.manager(), token, *who, json.dumps(about, ensure_ascii=False))
    except EnqueueRefused as error:
        if not action.relieves:
            raise
        # Throttled or full: what makes room has to be possible. The token counts in this process alone.
        logger.warning("%s begins %s %s, which the log of actions cannot take: %s", *who, error)
        return visit.console.unlogged.add(token)


async def _end(visit: Visit, token: str, who: tuple[str, str, str], state: str, text: str) -> None:
    """Write to the log how an action ended. The action is over, so a log that is full does not make it fail."""
    try:
        await log.end(await visit.manager(), token, *who, state, text)
    except EnqueueRefused as error:
        logger.warning("%s: %s %s is %s, which the log of actions cannot take: %s", *who, state, error)


def _done(visit: Visit, action: Action, values: Values, token: str) -> Response:
    path, arguments = action.then(values)
    return visit.redirect(visit.link(path, **arguments, done=token))
