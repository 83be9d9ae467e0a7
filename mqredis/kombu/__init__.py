"""kombu and Celery on mqredis: ``import mqredis.kombu``, then ``broker_url = "mqredis://localhost:6379/0"``.

The import adds the transport to kombu's table under the name ``mqredis``, unless another has that name already;
``docs/celery.md`` tells the rest.
"""

from __future__ import annotations

from mqredis.errors import MissingDependency

try:
    from kombu.transport import TRANSPORT_ALIASES

    from mqredis.kombu.transport import Transport
except ImportError as error:
    raise MissingDependency.of("mqredis.kombu", "kombu", error) from None

TRANSPORT_ALIASES.setdefault("mqredis", "mqredis.kombu.transport:Transport")

__all__ = ["Transport"]
