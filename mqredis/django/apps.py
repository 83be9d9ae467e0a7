"""The Django application, for its management command.

Projects name ``mqredis.django`` in ``INSTALLED_APPS``; without that, Django does not find ``mqredis_worker``.
"""

from __future__ import annotations

from django.apps import AppConfig


class MqredisConfig(AppConfig):
    """``INSTALLED_APPS = [..., "mqredis.django"]``."""

    name = "mqredis.django"
    label = "mqredis"
    verbose_name = "mqredis"
