"""Hides passwords in texts for errors and logs.

Drivers pass through it each error of redis-py, ``worker.logs`` and ``kombu.transport`` what may hold a URL.
"""

from __future__ import annotations

import re
from urllib.parse import quote

# Up to the last @ of the word, since a password may hold any character that its writer forgot to quote.
_CREDENTIALS = re.compile(r"(?<=://)\S*@")
# The same with the name of the user apart, up to its colon.
_PASSWORD = re.compile(r"(?<=://)([^:@\s]*:)\S*@")
_QUERY = re.compile(r"""(?i)((?:password|secret|token)=)(?:'[^'\n]*'|"[^"\n]*")?[^&\s]*""")


def redact(text: object, *secrets: str | None) -> str:
    """The text without credentials: those in URLs, and ``secrets``, plain, quoted for a URL, or as repr shows them."""
    out = _QUERY.sub(r"\1***", _CREDENTIALS.sub("***@", str(text)))
    forms = {
        form for secret in secrets if secret for form in (secret, quote(secret, safe=""), repr(secret)[1:-1])
    }
    for form in sorted(forms, key=len, reverse=True):  # one secret may be part of another
        out = out.replace(form, "***")
    return out


def mask_passwords(url: str, mask: str) -> str:
    """The URL with ``mask`` in place of each password. The name of the user is shown."""
    shown = _PASSWORD.sub(lambda found: f"{found[1]}{mask}@", url)
    return _QUERY.sub(lambda found: found[1] + mask, shown)
