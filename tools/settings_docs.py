"""Write docs/settings.md from ``mqredis/settings.py``: ``python -m tools.settings_docs [--check]``.

``make format`` calls it.
"""

from __future__ import annotations

import sys
from enum import Enum

from annotated_types import Ge, Gt, Le

from mqredis import Settings
from mqredis.cli.queues import docstrings
from mqredis.settings import ENV_PREFIX
from tools.written_files import ROOT, write

TARGET = ROOT / "docs" / "settings.md"
HEAD = """# Settings

A client takes its settings from the argument `settings=` of `connect`, or else from environment variables. Arguments of
`connect` (`url`, `manager`) win over both.

```python
import mqredis

settings = mqredis.Settings(url="redis://localhost:6379/0", lease_seconds=60)
print(settings.lease_seconds)  # -> 60.0
```

Settings cannot be changed after they are made, and they can be pickled. An unknown argument or a value outside the
range raises an error that names the setting; unknown environment variables are ignored. An empty variable counts as
not set: with an empty `MQREDIS_URL`, a client uses the private server, and logs a warning. Durations are seconds, and
sizes are bytes.

| setting | environment variable | default | range | meaning |
|---|---|---|---|---|
"""
FOOT = """
More variables are not fields of `Settings`:

| environment variable | meaning |
|---|---|
| `MQREDIS_DIR` | folder in which the private server keeps its data |
| `MQREDIS_CONSOLE_TOKEN` | token with which the [console](console.md) lets visitors in |
| `MQREDIS_CONSOLE_ALSO` | more queue managers that the [console](console.md) shows: `NAME=URL`, with spaces between |
| `MQREDIS_TEST_URL` | server on which the [pytest plugin](testing.md) runs the tests of an application |
| `MQREDIS_TEST_SERVER` | server program with which the tests of mqredis itself run |
"""


def _range(metadata: list[object]) -> str:
    signs = [f"≥ {m.ge:,}" for m in metadata if isinstance(m, Ge)]
    signs += [f"> {m.gt:,}" for m in metadata if isinstance(m, Gt)]
    signs += [f"≤ {m.le:,}" for m in metadata if isinstance(m, Le)]
    return ", ".join(signs)


def _default(value: object) -> str:
    return f"`{value.value if isinstance(value, Enum) else value}`"


def render() -> str:
    """The whole page. Raises KeyError for a setting without a docstring."""
    texts = docstrings(Settings)
    rows = [
        f"| `{name}` | `{ENV_PREFIX}{name.upper()}` | {_default(field.default)} | {_range(field.metadata)} "
        f"| {texts[name].replace('``', '`')} |\n"
        for name, field in Settings.model_fields.items()
    ]
    return HEAD + "".join(rows) + FOOT


if __name__ == "__main__":
    sys.exit(write({TARGET: render()}, sys.argv[1:]))
