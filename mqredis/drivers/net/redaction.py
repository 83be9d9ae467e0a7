"""Hides passwords in texts for errors and logs."""

from __future__ import annotations

import re
from urllib.parse import quote

# Up to the last @ of the word, since a password may hold any character that its writer forgot to quote.
_CREDENTIALS = re.compile(r"(?<=://)\S*@")
_QUERY = re.compile(r"(?i)((?:password|secret|token)=)[^&\s]*")


def redact(text: object, *secrets: str | None) -> str:
    """The text without credentials: those in URLs, and each of ``secrets`` however it is quoted."""
    out = _QUERY.sub(r"\1***", _CREDENTIALS.sub("***@", str(text)))
    for secret in secrets:
        if secret:
            for form in {secret, quote(secret, safe=""), repr(secret)[1:-1]}:
                out = out.replace(form, "***")
    return out
