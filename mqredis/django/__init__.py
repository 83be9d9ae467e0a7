"""Django's tasks on mqredis: ``TASKS = {"default": {"BACKEND": "mqredis.django.MqredisBackend"}}``.

Works with ``django.tasks`` of Django 6 and with the package ``django-tasks`` before. ``docs/django.md`` tells the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mqredis.django.backend import MqredisBackend

__all__ = ["MqredisBackend"]


def __getattr__(name: str) -> Any:
    # Django imports this package as an application before its settings may be used, and the backend uses them.
    if name == "MqredisBackend":
        from mqredis.errors import MissingDependency

        try:
            from mqredis.django.backend import MqredisBackend
        except ImportError as error:
            raise MissingDependency.of("mqredis.django", "django", error) from None
        return MqredisBackend
    raise AttributeError(name)
