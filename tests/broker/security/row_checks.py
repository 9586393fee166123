"""What every row of the tables of rights has to show: each right is needed, and all of them are enough."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tests.broker.security.coordination_rows import NONE, Ids, Row
from tests.broker.security.denials import denials_in
from tests.broker.security.rights import only

import ottla
from ottla.client.raw import RawConnection


def each_missing_right(rows: Iterable[Row]) -> list[Any]:
    """Parameters `row`, `version` and `missing`, the number of the right that the caller lacks."""
    return [
        pytest.param(row, version, missing, id=f"{row.name}-v{version}-{missing}")
        for row in rows
        for version in row.versions
        for missing in range(len(row.without))
    ]


def each_version(rows: Iterable[Row]) -> list[Any]:
    """Parameters `row` and `version`."""
    return [
        pytest.param(row, version, id=f"{row.name}-v{version}")
        for row in rows
        for version in row.versions
    ]


def check_missing_right(
    broker: ottla.Broker, wire: RawConnection, ids: Ids, row: Row, version: int, missing: int
) -> None:
    right, expected = list(row.without.items())[missing]
    others = [each for each in row.without if each != right]
    with only(broker, *others):
        answer = wire.call(row.request(version, ids), row.response, version)
    assert denials_in(answer) == expected, answer


def check_all_rights(
    broker: ottla.Broker, wire: RawConnection, ids: Ids, row: Row, version: int
) -> None:
    with only(broker, *row.without) as rights:
        answer = wire.call(row.request(version, ids), row.response, version)
    assert set(denials_in(answer)) <= {NONE}, answer
    assert rights.denied == []
