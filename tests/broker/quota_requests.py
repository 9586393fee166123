"""Quotas in a line each, for the tests of quotas."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

Names = Mapping[str, str | None]
Outcome = tuple[Names, ErrorCode, str | None]
EXACT, DEFAULT, SPECIFIED = 0, 1, 2


def entry(names: Names, quotas: Mapping[str, float | None]) -> EntryData:
    """The change of an entity; None removes a quota."""
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in names.items()],
        ops=[
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in quotas.items()
        ],
    )


def alter(
    connection: RawConnection, *entries: EntryData, validate_only: bool = False, version: int = 1
) -> list[Outcome]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    response = connection.call(request, AlterClientQuotasResponse, version)
    return [
        (
            {one.entity_type: one.entity_name for one in each.entity},
            ErrorCode(each.error_code),
            each.error_message,
        )
        for each in response.entries
    ]


def set_quotas(connection: RawConnection, names: Names, **quotas: float | None) -> None:
    """Sets quotas that are valid."""
    assert alter(connection, entry(names, quotas)) == [(names, ErrorCode.NONE, None)]


def describe(
    connection: RawConnection,
    *components: tuple[str, int, str | None],
    strict: bool = False,
    version: int = 1,
) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    response = described(connection, *components, strict=strict, version=version)
    assert response.error_code == ErrorCode.NONE
    assert response.entries is not None
    return [
        (
            {one.entity_type: one.entity_name for one in each.entity},
            {one.key: one.value for one in each.values},
        )
        for each in response.entries
    ]


def described(
    connection: RawConnection,
    *components: tuple[str, int, str | None],
    strict: bool = False,
    version: int = 1,
) -> DescribeClientQuotasResponse:
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=match, match=name)
            for kind, match, name in components
        ],
        strict=strict,
    )
    response = connection.call(request, DescribeClientQuotasResponse, version)
    assert isinstance(response, DescribeClientQuotasResponse)
    return response
