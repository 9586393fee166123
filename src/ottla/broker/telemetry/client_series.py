"""The metrics that clients have pushed to a node, as series for Prometheus, with a limit on everything.

A push has all gauges of its client, so it replaces them: what a consumer said of a partition that it no longer reads
goes. Sums arrive as differences and are added up here, for as long as the client is known.
"""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from enum import StrEnum
from math import isfinite, isnan
from typing import Final, NamedTuple

from ottla.broker.telemetry.client_instances import SHORTEST_EXPIRY_MS, Client, ClientInstance
from ottla.broker.telemetry.otlp import DecodedMetrics, Point, PointKind
from ottla.exposition import Metric, rendered_labels
from ottla.model import Endpoint, topic_id_text

MAX_SERIES: Final = 20_000  # of all clients of the node together
MAX_SERIES_PER_CLIENT: Final = 1_000
MAX_SERIES_BYTES: Final = 768  # of the name and the labels
MAX_CLIENT_ID_CHARS: Final = 128

PREFIX: Final = "kafka_client_"
_KAFKAS_PREFIX: Final = "org.apache.kafka."
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_]+")
# A reader of the page may take some of them for its end.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_HELP: Final = "Pushed by clients."
_COUNTER_SUFFIX: Final = "_total"
_OWN_LABELS: Final = ("node", "client_id", "client_instance_id")


class Dropped(StrEnum):
    """Why a data point is on no page."""

    CLIENT_LIMIT = "client_limit"  # its client has MAX_SERIES_PER_CLIENT
    TOTAL_LIMIT = "total_limit"  # all clients together have MAX_SERIES
    TOO_LONG = "too_long"  # its name and labels have more than MAX_SERIES_BYTES
    UNSUPPORTED = "unsupported"  # a histogram, a summary, or no number


class SeriesName(NamedTuple):
    """A series: the metric, and its labels as the page has them, in UTF-8."""

    metric: str
    labels: bytes


class _ClientSeries:
    """The series of one client."""

    __slots__ = ("client", "expires_ms", "gauges", "sums")

    def __init__(self, client: Client) -> None:
        self.client = client
        self.expires_ms = 0
        self.gauges: dict[SeriesName, float] = {}
        self.sums: dict[SeriesName, float] = {}

    def __len__(self) -> int:
        return len(self.gauges) + len(self.sums)


class ClientSeries:
    """The series of all clients of a node, and how many data points did not become one."""

    def __init__(self, node_id: int) -> None:
        self._node = str(node_id)
        self._clients: dict[uuid.UUID, _ClientSeries] = {}
        self._by_connection: dict[Endpoint, uuid.UUID] = {}
        # Clients whose connection was closed, the first of them first: their series make room for others.
        self._gone: dict[uuid.UUID, None] = {}
        self.count = 0
        self.dropped = Counter[Dropped]()

    def add(
        self, instance: ClientInstance, decoded: DecodedMetrics, is_last: bool, now_ms: int
    ) -> Generator[None, None, None]:
        """Takes over a push; one at a time."""
        client = self._find(instance)
        client.expires_ms = now_ms + (SHORTEST_EXPIRY_MS if is_last else instance.lifetime_ms())
        self.dropped[Dropped.UNSUPPORTED] += decoded.skipped
        own = self._own_labels(instance.instance_id, instance.client)
        gauges: dict[SeriesName, float] = {}
        for point in decoded.points:
            yield
            if self._clients.get(instance.instance_id) is not client:
                return  # it was forgotten meanwhile
            reason = self._add_point(client, gauges, own, point)
            if reason is not None:
                self.dropped[reason] += 1
        self.count += len(gauges) - len(client.gauges)
        client.gauges = gauges

    def _find(self, instance: ClientInstance) -> _ClientSeries:
        """The client of a push. A connection has one: a client that invents ids has to connect for each of them."""
        instance_id, peer = instance.instance_id, instance.client.peer
        earlier_id = self._by_connection.get(peer)
        if earlier_id is not None and earlier_id != instance_id:
            self._forget(earlier_id)
        client = self._clients.get(instance_id)
        if client is None:
            client = self._clients[instance_id] = _ClientSeries(instance.client)
        elif client.client.peer != peer:
            self._by_connection.pop(client.client.peer, None)
            client.client = instance.client
        self._gone.pop(instance_id, None)
        self._by_connection[peer] = instance_id
        return client

    def _add_point(
        self,
        client: _ClientSeries,
        gauges: dict[SeriesName, float],
        own: Sequence[tuple[str, str]],
        point: Point,
    ) -> Dropped | None:
        is_gauge = point.kind is PointKind.GAUGE
        if is_gauge and isnan(point.value):
            return None  # such as an average of nothing
        if not is_gauge and (not isfinite(point.value) or (point.is_monotonic and point.value < 0)):
            return Dropped.UNSUPPORTED
        name = SeriesName(_metric_name(point), _labels(own, point))
        if len(name.metric) + len(name.labels) > MAX_SERIES_BYTES:
            return Dropped.TOO_LONG
        series = gauges if is_gauge else client.sums
        if name not in series:
            if len(gauges) + len(client.sums) >= MAX_SERIES_PER_CLIENT:
                return Dropped.CLIENT_LIMIT
            if not self._has_room(client, len(gauges) - len(client.gauges)):
                return Dropped.TOTAL_LIMIT
            self.count += not is_gauge  # gauges are counted when they are complete
        before = series.get(name, 0) if point.kind is PointKind.DELTA else 0
        series[name] = before + point.value
        return None

    def _has_room(self, client: _ClientSeries, uncounted: int) -> bool:
        """Whether a client may have one more series; others that have gone make room for it."""
        for instance_id in list(self._gone):
            if self.count + uncounted < MAX_SERIES:
                break
            if self._clients[instance_id] is not client:
                self._forget(instance_id)
        return self.count + uncounted < MAX_SERIES

    def _own_labels(self, instance_id: uuid.UUID, client: Client) -> list[tuple[str, str]]:
        values = (
            self._node,
            _printable((client.client_id or "")[:MAX_CLIENT_ID_CHARS]),
            topic_id_text(instance_id),
        )
        return list(zip(_OWN_LABELS, values, strict=True))

    def end_of(self, connection: Endpoint) -> None:
        """Keeps the last values of a client that has gone until they expire, or until others need the room."""
        instance_id = self._by_connection.pop(connection, None)
        if instance_id is not None:
            self._gone[instance_id] = None

    def expire(self, now_ms: int) -> None:
        """Forgets clients that have not pushed for some time."""
        for instance_id, client in list(self._clients.items()):
            if client.expires_ms <= now_ms:
                self._forget(instance_id)

    def _forget(self, instance_id: uuid.UUID) -> None:
        client = self._clients.pop(instance_id)
        self.count -= len(client)
        self._gone.pop(instance_id, None)
        if self._by_connection.get(client.client.peer) == instance_id:
            del self._by_connection[client.client.peer]

    def clients(self) -> Iterator[list[tuple[str, str]]]:
        """The clients that have pushed, each as labels."""
        for instance_id, client in list(self._clients.items()):
            about = client.client
            yield [
                *self._own_labels(instance_id, about),
                ("software_name", about.software_name),
                ("software_version", about.software_version),
                ("host", about.peer.host),
            ]

    def samples(self) -> Iterator[tuple[Metric, str, float]]:
        """Every series: its metric, its labels as text, and its value."""
        for client in list(self._clients.values()):
            for series in (client.gauges, client.sums):
                for name, value in list(series.items()):
                    kind = "counter" if name.metric.endswith(_COUNTER_SUFFIX) else "gauge"
                    yield Metric(name.metric, kind, _HELP), name.labels.decode(), value


def _metric_name(point: Point) -> str:
    """The name for Prometheus. Counters end in _total and nothing else does, so that a name has one type."""
    name = PREFIX + _plain(point.metric.removeprefix(_KAFKAS_PREFIX))
    if point.is_monotonic:
        return name if name.endswith(_COUNTER_SUFFIX) else name + _COUNTER_SUFFIX
    return name + "_value" if name.endswith(_COUNTER_SUFFIX) else name


def _labels(own: Sequence[tuple[str, str]], point: Point) -> bytes:
    attributes: dict[str, str] = {}
    for name, value in point.attributes:
        attributes[_plain(name)] = _printable(value)
    others = sorted((name, value) for name, value in attributes.items() if name not in _OWN_LABELS)
    return rendered_labels((*own, *others)).encode("utf-8", "replace")


def _printable(text: str) -> str:
    return _CONTROL.sub("?", text)


def _plain(name: str) -> str:
    """A name with letters, digits and underscores only, that begins with a letter: two underscores are reserved."""
    plain = _NOT_IN_NAMES.sub("_", name).strip("_")
    return plain if plain[:1].isalpha() else f"x_{plain}"
