"""When brokers forget producers that write no more."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from ottla.client.admin_model.configs import ConfigResource
from ottla.client.aio.admin.client import Admin
from ottla.errors import OttlaError

NAME: Final = "producer.id.expiration.ms"
DEFAULT_MS: Final = 86_400_000
KEPT_SECONDS: Final = 300.0


class ExpirationTime(NamedTuple):
    """How long a producer may be silent."""

    ms: int
    is_known: bool
    """Whether a broker told it; otherwise it is Kafka's default."""


class ProducerExpiration:
    """Asks a broker for the option, and remembers it for a while."""

    def __init__(self) -> None:
        self._latest = ExpirationTime(DEFAULT_MS, is_known=False)
        self._fresh_until = 0.0

    async def time(self, admin: Admin, broker_id: int) -> ExpirationTime:
        """The time; Kafka's default if the broker does not tell."""
        if time.monotonic() >= self._fresh_until:
            self._fresh_until = time.monotonic() + KEPT_SECONDS
            self._latest = await _ask(admin, broker_id)
        return self._latest


async def _ask(admin: Admin, broker_id: int) -> ExpirationTime:
    resource = ConfigResource.broker(broker_id)
    try:
        configs = await admin.describe_configs([resource], config_names=[NAME])
        entry = configs[resource].get(NAME)
        if entry is not None and entry.value is not None:
            return ExpirationTime(int(entry.value), is_known=True)
    except (OttlaError, ValueError):
        pass
    return ExpirationTime(DEFAULT_MS, is_known=False)
