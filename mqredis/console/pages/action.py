"""The form of an action, and what happens when it is sent.

``console.pages`` has the routes. tests/console/test_every_action.py goes through all actions.

Once for each form: the token of a form is that of the broker's call. An action ``by_operator`` gives it to its method
of ``Operator``, which also writes the log; for the others ``begin`` asks whether the token is new, and ``end`` keeps
the result for a second sending. The form after an error has a new token. "body" and "properties" are not logged. The
notice is signed for the cookie of the browser and travels in the address as ``done``, which also has pages read anew
(``pages.overview``, ``workers``).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from mqredis.console.actions import REGISTRY
from mqredis.console.actions.base import OPERATOR, Action, Preview, Unfinished, Values
from mqredis.console.security import Forbidden, Notice
from mqredis.console.visit import Visit
from mqredis.errors import MqError
from mqredis.operations.actions import OUTCOME_TEXT

# Characters of a field in the log, and of a notice in an address.
_TEXT = 400


def _action(visit: Visit) -> Action:
    """The action in the address. Raises HTTPException, and Forbidden if the visitor may not carry it out."""
    name = visit.request.path_params["action"]
    if name not in REGISTRY:
        raise HTTPException(404, f"There is no action {name!r:.60}.")
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
    """Carry out an action once for each form, and go to the page that shows the result.

    "Count again" (field ``check``) shows the form anew.
    """
    action = _action(visit)
    values = await visit.form()
    wrong: MqError | str | None = None
    if "check" not in values:
        if action.destroys and values.get("confirm", "").strip() != values.get(action.names, ""):
            wrong = f"Nothing was done: type the {action.names}'s name to confirm."
        elif not values.get("token"):
            wrong = "Nothing was done: the form is incomplete. Send it again."
        else:
            try:
                outcome = await _run(visit, action, values)
            except MqError as error:
                wrong = error
            else:
                if isinstance(outcome, Unfinished):
                    return _progress(visit, action, values, outcome)
                return _done(visit, action, values, outcome)
    try:
        preview = await action.preview(await visit.manager(), values)
    except MqError as error:
        return _form(visit, action, values, None, wrong or error)
    return _form(visit, action, values, preview, wrong)


async def _run(visit: Visit, action: Action, values: Values) -> Notice | Unfinished:
    """Carry out an action, or a part of it, unless its form was sent before. Raises MqError."""
    manager = await visit.manager()
    operator = manager.operator(visit.visitor.name, source="console")
    if action.by_operator:
        done = await action.run(manager, {**values, OPERATOR: operator.name})
        return done if isinstance(done, Unfinished) else Notice("done", done)
    name, queue, token = action.name.replace("-", "_"), values.get("queue") or None, values["token"]
    shown = {field.name for field in action.fields} - {"body", "properties"}
    details = {name: values[name][:_TEXT] for name in sorted(shown) if values.get(name)}
    earlier = await operator.begin(name, queue, token=token, details=details)
    if earlier is not None:
        return _outcome(earlier)
    try:
        text = str(await action.run(manager, {**values, OPERATOR: operator.name}))
    except MqError as error:
        outcome = {"error": f"{type(error).__name__}: {error}"[:OUTCOME_TEXT]}
        await operator.end(name, queue, token=token, outcome=outcome)
        raise
    await operator.end(name, queue, token=token, outcome={"result": text[:OUTCOME_TEXT]})
    return Notice("done", text)


def _outcome(earlier: Mapping[str, Any]) -> Notice:
    """What came of an action that has begun before. Raises MqError if it failed."""
    if "error" in earlier:
        raise MqError(earlier["error"])
    if "result" in earlier:
        return Notice("done", earlier["result"])
    return Notice("started", "The action has begun. Its result will be in the log of actions.")


def _progress(visit: Visit, action: Action, values: Values, outcome: Unfinished) -> Response:
    """The page of an action that has not finished, with the same form again."""
    path, arguments = action.then(values)
    total = values.get("total", "")  # as counted for the first form
    return visit.page(
        "progress.html",
        action=action,
        fields={
            **{name: value for name, value in values.items() if name != "csrf"},
            "cursor": outcome.cursor,
        },
        target=values.get("queue", ""),
        outcome=outcome,
        total=int(total) if total.isdecimal() and int(total) >= outcome.changed else None,
        back=visit.link(path, **arguments),
    )


def _done(visit: Visit, action: Action, values: Values, notice: Notice) -> Response:
    path, arguments = action.then(values)
    notice = notice._replace(text=notice.text[:_TEXT])
    done = visit.console.signer.signed_notice(visit.cookie.nonce, notice)
    return visit.redirect(visit.link(path, **arguments, done=done))
