"""The client instances that a node knows: what each should push, when it may push, and when it is forgotten.

The rules are those of Kafka's broker (KIP-714); time is an argument.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Mapping
from typing import Final, NamedTuple

from ottla.broker.telemetry.subscription import Subscription, read_subscription
from ottla.config.client_metrics import (
    ALL_METRICS,
    CLIENT_ID,
    CLIENT_INSTANCE_ID,
    CLIENT_SOFTWARE_NAME,
    CLIENT_SOFTWARE_VERSION,
    CLIENT_SOURCE_ADDRESS,
    CLIENT_SOURCE_PORT,
    DEFAULT_INTERVAL_MS,
)
from ottla.core.catalog import Catalog
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.model import Endpoint, topic_id_text
from ottla.records.compression import Codec
from ottla.records.crc import crc32c
from ottla.wire.types import ZERO_UUID

MAX_INSTANCES: Final = 16384
# An instance that is silent for three intervals, and at least for this long, is forgotten.
SHORTEST_EXPIRY_MS: Final = 60_000
# Patterns see no more of a client id.
MAX_CLIENT_ID_CHARS: Final = 256
# No client may have them as its id.
RESERVED_IDS: Final = (ZERO_UUID, uuid.UUID(int=1))
_NEVER_MS: Final = -(1 << 62)
# After these errors a client asks again at once, and may.
_ASKED_AGAIN_AFTER: Final = (
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
)
_TOO_EARLY: Final = Refused(
    ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the push interval is not over yet"
)


class Client(NamedTuple):
    """The client of a request: what it says of itself, and its connection."""

    client_id: str | None
    software_name: str
    software_version: str
    peer: Endpoint

    def attributes(self, instance_id: uuid.UUID) -> dict[str, str]:
        """What subscriptions can match."""
        client_id = (
            {} if self.client_id is None else {CLIENT_ID: self.client_id[:MAX_CLIENT_ID_CHARS]}
        )
        return client_id | {
            CLIENT_INSTANCE_ID: topic_id_text(instance_id),
            CLIENT_SOFTWARE_NAME: self.software_name,
            CLIENT_SOFTWARE_VERSION: self.software_version,
            CLIENT_SOURCE_ADDRESS: self.peer.host,
            CLIENT_SOURCE_PORT: str(self.peer.port),
        }


class Wanted(NamedTuple):
    """What an instance should push, by all subscriptions that are about it."""

    metrics: tuple[str, ...]
    push_interval_ms: int

    def subscription_id(self, instance_id: uuid.UUID) -> int:
        """A number that changes with the subscriptions; it is the same on every node."""
        text = f"[{', '.join(self.metrics)}]{self.push_interval_ms}"
        high, low = divmod(instance_id.int, 1 << 64)
        folded = high ^ low
        number = crc32c(text.encode()) ^ (folded >> 32 ^ folded & 0xFFFFFFFF)
        return number - (1 << 32) if number >= 1 << 31 else number


class Push(NamedTuple):
    """What a push says beside its metrics."""

    subscription_id: int
    terminating: bool
    compression_type: int
    size_bytes: int


class ClientInstance:
    """One client, from its first request to its last push."""

    def __init__(
        self, instance_id: uuid.UUID, client: Client, wanted: Wanted, evaluated: int
    ) -> None:
        self.instance_id = instance_id
        self.client = client
        self.wanted = wanted
        self.subscription_id = wanted.subscription_id(instance_id)
        self.evaluated = evaluated  # the number of changes of subscriptions that `wanted` knows
        self.expires_ms = 0
        self.last_error = ErrorCode.NONE
        self._last_get_ms = _NEVER_MS
        self._last_push_ms = _NEVER_MS
        self._is_terminating = False

    def lifetime_ms(self) -> int:
        """How long the instance is remembered after a request."""
        return max(SHORTEST_EXPIRY_MS, 3 * self.wanted.push_interval_ms)

    def get(self, now_ms: int) -> Refused | None:
        """Whether the instance may learn its subscription now."""
        elapsed_ms = now_ms - max(self._last_get_ms, self._last_push_ms)
        if elapsed_ms >= self.wanted.push_interval_ms:
            self._last_get_ms = now_ms
        elif self.last_error not in _ASKED_AGAIN_AFTER:
            return _TOO_EARLY
        self.last_error = ErrorCode.NONE
        return None

    def push(self, push: Push, max_bytes: int, now_ms: int) -> Refused | None:
        """Whether the instance may push now."""
        refused = self._check(push, max_bytes, now_ms)
        self._is_terminating = push.terminating
        self.last_error = ErrorCode.NONE if refused is None else refused.error
        return refused

    def _check(self, push: Push, max_bytes: int, now_ms: int) -> Refused | None:
        if self._is_terminating:
            return Refused(ErrorCode.INVALID_REQUEST, "the client has said its last push was one")
        if not self._accepts_push_at(now_ms) and not push.terminating:
            return _TOO_EARLY
        if push.subscription_id != self.subscription_id:
            return Refused(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, "the subscription has changed")
        if push.compression_type not in Codec.__members__.values():
            return Refused(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"there is no compression type {push.compression_type}",
            )
        if push.size_bytes > max_bytes:
            return Refused(
                ErrorCode.TELEMETRY_TOO_LARGE,
                f"{push.size_bytes} bytes are more than telemetry.max.bytes={max_bytes}",
            )
        return None

    def _accepts_push_at(self, now_ms: int) -> bool:
        # The first push after a Get may be early: clients add a jitter, from half an interval to one and a half.
        is_first = self._last_get_ms > self._last_push_ms
        if is_first or now_ms - self._last_push_ms >= self.wanted.push_interval_ms:
            self._last_push_ms = now_ms
            return True
        return False


class ClientInstances:
    """The instances of a node, and the subscriptions that the catalog has for them."""

    def __init__(self, catalog: Catalog, new_id: Callable[[], uuid.UUID]) -> None:
        self._catalog = catalog
        self._new_id = new_id
        self._instances: dict[uuid.UUID, ClientInstance] = {}  # the longest unused first
        self._by_connection: dict[Endpoint, uuid.UUID] = {}
        self._subscriptions: dict[str, tuple[Mapping[str, str], Subscription]] = {}

    def __len__(self) -> int:
        return len(self._instances)

    def new_instance_id(self) -> uuid.UUID:
        while (made := self._new_id()) in self._instances or made in RESERVED_IDS:
            pass
        return made

    def find(
        self, instance_id: uuid.UUID, client: Client, now_ms: int
    ) -> Generator[None, None, ClientInstance]:
        """The instance of a request, with what the subscriptions of now want of it."""
        instance = self._instances.get(instance_id)
        changes = self._catalog.client_metrics_changes
        if instance is None or instance.evaluated < changes:
            known = client if instance is None else instance.client
            wanted = yield from self._evaluate(known.attributes(instance_id))
            instance = ClientInstance(instance_id, known, wanted, changes)
        instance.expires_ms = now_ms + instance.lifetime_ms()
        self._instances.pop(instance_id, None)
        self._instances[instance_id] = instance
        self._by_connection[client.peer] = instance_id
        if len(self._instances) > MAX_INSTANCES:
            del self._instances[next(iter(self._instances))]
        return instance

    def _evaluate(self, attributes: Mapping[str, str]) -> Generator[None, None, Wanted]:
        interval_ms = DEFAULT_INTERVAL_MS
        metrics: set[str] = set()
        for name, options in list(self._catalog.client_metrics.items()):
            yield
            subscription = self._subscription(name, options)
            if subscription.includes(attributes):
                interval_ms = min(interval_ms, subscription.interval_ms)
                metrics.update(subscription.metrics)
        if ALL_METRICS in metrics:
            return Wanted((ALL_METRICS,), interval_ms)
        return Wanted(tuple(sorted(metrics)), interval_ms)

    def _subscription(self, name: str, options: Mapping[str, str]) -> Subscription:
        """The subscription that the options describe; its patterns are compiled once."""
        known = self._subscriptions.get(name)
        if known is None or known[0] is not options:
            known = self._subscriptions[name] = (options, read_subscription(options))
        return known[1]

    def end_of(self, connection: Endpoint) -> None:
        """Forgets the instance of a connection that was closed."""
        instance_id = self._by_connection.pop(connection, None)
        if instance_id is not None:
            self._instances.pop(instance_id, None)

    def expire(self, now_ms: int) -> None:
        """Forgets silent instances, and subscriptions that were removed."""
        silent = [each for each in self._instances.values() if each.expires_ms <= now_ms]
        for instance in silent:
            del self._instances[instance.instance_id]
        if len(self._subscriptions) > len(self._catalog.client_metrics):
            names = self._catalog.client_metrics
            self._subscriptions = {
                name: known for name, known in self._subscriptions.items() if name in names
            }
