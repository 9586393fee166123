"""The series of clients that come, go and are forgotten while their push is taken over: the count stays right."""

from __future__ import annotations

import uuid

import pytest

from ottla.broker.loop.loop_share import at_once
from ottla.broker.telemetry import client_series
from ottla.broker.telemetry.client_instances import Client, ClientInstance, Wanted
from ottla.broker.telemetry.client_series import ClientSeries, Dropped
from ottla.broker.telemetry.otlp import DecodedMetrics, Point, PointKind
from ottla.model import Endpoint

NOW_MS = 1_000_000


def instance(number: int) -> ClientInstance:
    client = Client(f"c{number}", "some", "1", Endpoint("127.0.0.1", 1000 + number))
    return ClientInstance(uuid.UUID(int=number), client, Wanted(("*",), 1000), 0)


def pushed(count: int, kind: PointKind = PointKind.DELTA) -> DecodedMetrics:
    points = [
        Point(f"m{number}", kind, kind is not PointKind.GAUGE, (), 1) for number in range(count)
    ]
    return DecodedMetrics(points, 0)


def total(series: ClientSeries) -> int:
    return sum(1 for _ in series.samples())


@pytest.mark.parametrize("kind", [PointKind.DELTA, PointKind.GAUGE])
def test_a_client_that_is_forgotten_during_its_push_leaves_nothing(kind: PointKind) -> None:
    series = ClientSeries(1)
    adding = series.add(instance(5), pushed(10, kind), False, NOW_MS)
    for _ in range(5):
        next(adding)
    series.expire(NOW_MS + 10**9)
    with pytest.raises(StopIteration):
        next(adding)
    assert (series.count, total(series)) == (0, 0)


@pytest.mark.parametrize("kind", [PointKind.DELTA, PointKind.GAUGE])
def test_a_client_that_goes_during_its_push_makes_no_room_for_itself(
    monkeypatch: pytest.MonkeyPatch, kind: PointKind
) -> None:
    monkeypatch.setattr(client_series, "MAX_SERIES", 6)
    series = ClientSeries(1)
    first, second = instance(5), instance(6)
    at_once(series.add(first, pushed(4), False, NOW_MS))
    series.end_of(first.client.peer)
    adding = series.add(second, pushed(10, kind), False, NOW_MS)
    next(adding)
    series.end_of(second.client.peer)
    at_once(adding)
    assert (series.count, total(series)) == (6, 6)
    assert series.dropped[Dropped.TOTAL_LIMIT] == 4


def test_pushes_of_many_clients_are_counted_as_they_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_series, "MAX_SERIES", 50)
    series = ClientSeries(1)
    for step in range(200):
        each = instance(5 + step % 7)
        kind = PointKind.GAUGE if step % 3 else PointKind.DELTA
        at_once(series.add(each, pushed(step * 5 % 23, kind), step % 11 == 0, NOW_MS + step * 5000))
        if step % 4 == 0:
            series.end_of(each.client.peer)
        if step % 10 == 0:
            series.expire(NOW_MS + step * 5000)
        assert series.count == total(series) <= 50
