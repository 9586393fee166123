"""Which quota applies to a client: Kafka's order, from the pair of user and client id to any client."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.security.quotas.entities import CLIENT_KINDS, DEFAULT, QuotaEntity, QuotaKind
from ottla.core.security.quotas.table import AppliedQuota, QuotaTable
from ottla.core.security.quotas.usage import IDLE_MS, MAX_NAME_CHARS, Usage, short

RATE = QuotaKind.PRODUCER_BYTE_RATE
NAMES = [None, DEFAULT, "ann", "ben"]
CLIENT_ENTITIES = [
    QuotaEntity(user, client_id)
    for user, client_id in product(NAMES, NAMES)
    if user is not None or client_id is not None
]
ORDER = [
    ("ann", "app"),
    ("ann", DEFAULT),
    ("ann", None),
    (DEFAULT, "app"),
    (DEFAULT, DEFAULT),
    (DEFAULT, None),
    (None, "app"),
    (None, DEFAULT),
]


def table_of(quotas: dict[QuotaEntity, float], kind: QuotaKind = RATE) -> QuotaTable:
    table = QuotaTable()
    for entity, limit in quotas.items():
        table.apply(entity, {kind: limit}, None)
    return table


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_most_specific_quota_applies(first: int) -> None:
    quotas = {
        QuotaEntity(user, client_id): float(place)
        for place, (user, client_id) in enumerate(ORDER)
        if place >= first
    }
    applied = table_of(quotas).of_client(RATE, "ann", "app")
    assert applied is not None
    assert applied.limit == first
    user, client_id = ORDER[first]
    # All clients of a user share its quota; clients of a default quota do not share it with other names.
    assert applied.shared_by == (
        "" if user is None else "ann",
        "" if client_id is None else "app",
    )


class KafkaQuotas:
    """DefaultQuotaCallback of Kafka's ClientQuotaManager: the tags of a client's metric, then the limit of the tags."""

    def __init__(self, quotas: dict[QuotaEntity, float]) -> None:
        self.quotas = {(entity.user, entity.client_id): limit for entity, limit in quotas.items()}

    def has(self, user: str | None, client_id: str | None) -> bool:
        return (user, client_id) in self.quotas

    def tags(self, user: str, client_id: str) -> tuple[str, str]:
        levels = {
            (entity_user is not None, entity_client is not None)
            for entity_user, entity_client in self.quotas
        }
        if not levels or levels == {(False, True)}:
            return "", client_id
        if levels == {(True, False)}:
            return user, ""
        if levels == {(True, True)}:
            return user, client_id
        pairs = [(user, client_id or None), (user, DEFAULT)]
        if (client_id and self.has(*pairs[0])) or self.has(*pairs[1]):
            return user, client_id
        if self.has(user, None):
            return user, ""
        if (client_id and self.has(DEFAULT, client_id)) or self.has(DEFAULT, DEFAULT):
            return user, client_id
        if self.has(DEFAULT, None):
            return user, ""
        return "", client_id

    def limit(self, user: str, client_id: str) -> float | None:
        wanted: list[tuple[str | None, str | None]] = []
        if user and client_id:
            wanted = [(user, client_id), (user, DEFAULT), (DEFAULT, client_id), (DEFAULT, DEFAULT)]
        elif user:
            wanted = [(user, None), (DEFAULT, None)]
        elif client_id:
            wanted = [(None, client_id), (None, DEFAULT)]
        return next((self.quotas[one] for one in wanted if one in self.quotas), None)


@given(
    st.dictionaries(st.sampled_from(CLIENT_ENTITIES), st.floats(1, 1e9), max_size=8),
    st.sampled_from(["ann", "ben", "other"]),
    st.sampled_from(["ann", "ben", "other", ""]),
)
def test_the_quota_of_any_client_is_that_of_kafka(
    quotas: dict[QuotaEntity, float], user: str, client_id: str
) -> None:
    kafka = KafkaQuotas(quotas)
    tags = kafka.tags(user, client_id)
    limit = kafka.limit(*tags)
    expected = None if limit is None else AppliedQuota(limit, tags)
    assert table_of(quotas).of_client(RATE, user, client_id) == expected


def test_kinds_do_not_mix() -> None:
    table = table_of({QuotaEntity(user="ann"): 5.0})
    for kind in CLIENT_KINDS:
        assert (table.of_client(kind, "ann", "app") is not None) == (kind is RATE)


def what_is_limited(table: QuotaTable) -> tuple[bool, bool]:
    return table.limits_clients, table.limits_addresses


def test_without_quotas_nothing_is_limited() -> None:
    table = QuotaTable()
    assert what_is_limited(table) == (False, False)
    table.apply(QuotaEntity(ip="10.0.0.1"), {QuotaKind.CONNECTION_CREATION_RATE: 3.0}, "10.0.0.1")
    assert what_is_limited(table) == (False, True)
    table.apply(QuotaEntity(user=DEFAULT), {RATE: 3.0}, None)
    assert what_is_limited(table) == (True, True)
    table.apply(QuotaEntity(user=DEFAULT), {}, None)
    table.apply(QuotaEntity(ip="10.0.0.1"), {}, None)
    assert what_is_limited(table) == (False, False)
    assert not table.entities


def test_an_address_has_its_own_rate_or_the_default() -> None:
    kind = QuotaKind.CONNECTION_CREATION_RATE
    table = QuotaTable()
    assert table.of_address("10.0.0.1") is None
    table.apply(QuotaEntity(ip=DEFAULT), {kind: 9.0}, None)
    table.apply(QuotaEntity(ip="build.example"), {kind: 3.0}, "10.0.0.1")
    assert table.of_address("10.0.0.1") == 3.0
    assert table.of_address("10.0.0.2") == 9.0
    # The name has another address now.
    table.apply(QuotaEntity(ip="build.example"), {kind: 3.0}, "10.0.0.2")
    assert table.of_address("10.0.0.1") == 9.0
    assert table.of_address("10.0.0.2") == 3.0
    table.apply(QuotaEntity(ip="build.example"), {}, None)
    assert table.of_address("10.0.0.2") == 9.0


names = st.text(min_size=1) | st.sampled_from(["a/b", "user=x", "%2F", "%", "ip"])


@given(st.none() | st.just(DEFAULT) | names, st.none() | st.just(DEFAULT) | names)
def test_every_entity_has_a_key_of_its_own(user: str | None, client_id: str | None) -> None:
    entity = QuotaEntity(user, client_id)
    if entity != QuotaEntity():
        assert QuotaEntity.of_key(entity.key) == entity
        assert QuotaEntity.of_names(entity.names()) == entity


def test_a_flood_of_client_ids_fills_no_memory() -> None:
    usage: Usage[tuple[str, str], list[int]] = Usage(list, most=100)
    for number in range(1000):
        usage.of(("", f"c{number}"), number).append(number)
        usage.of(("ann", ""), number).append(number)  # who goes on is not forgotten
    assert len(usage) == 100
    assert len(usage.of(("ann", ""), 1000)) == 1000


def test_what_was_not_used_for_an_hour_is_forgotten() -> None:
    usage: Usage[str, list[int]] = Usage(list)
    for number, name in enumerate("abc"):
        usage.of(name, number)
    usage.of("a", 10)
    usage.forget_idle(IDLE_MS + 3)
    assert len(usage) == 1


def test_long_names_are_short_and_different() -> None:
    assert short("app") == "app"
    one, other = short("x" * 30_000 + "a"), short("x" * 30_000 + "b")
    assert one != other
    assert len(one) <= MAX_NAME_CHARS
