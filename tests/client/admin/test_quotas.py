"""Quotas of users, clients and addresses."""

from __future__ import annotations

import pytest
from tests.client.admin.stage import Stage, essential

from ottla.admin import QuotaEntity, QuotaName
from ottla.errors import ErrorCode, KafkaError, PartialFailureError

RATE, SHARE = "producer_byte_rate", "request_percentage"


def quotas(stage: Stage, user: str) -> dict[QuotaEntity, dict[str, float]]:
    return stage.admin.describe_client_quotas(user=user)


@essential
def test_quotas_are_set_found_and_removed(stage: Stage) -> None:
    user = stage.new_name()
    alone = QuotaEntity(user=user)
    both = QuotaEntity(user=user, client_id="till")
    default = QuotaEntity(user=user, client_id=QuotaName.DEFAULT)
    stage.admin.alter_client_quotas(
        {alone: {RATE: 1024, SHARE: 12.5}, both: {RATE: 2048}, default: {RATE: 4096}}
    )
    everything = {alone: {RATE: 1024.0, SHARE: 12.5}, both: {RATE: 2048.0}, default: {RATE: 4096.0}}
    assert stage.comes_true(lambda: quotas(stage, user) == everything)
    found = stage.admin.describe_client_quotas()
    assert {entity: found[entity] for entity in everything} == everything
    describe = stage.admin.describe_client_quotas
    assert describe(user=user, strict=True) == {alone: everything[alone]}
    assert describe(user=user, client_id="till") == {both: everything[both]}
    assert describe(user=user, client_id=QuotaName.DEFAULT) == {default: everything[default]}
    named = describe(user=user, client_id=QuotaName.ANY)
    assert set(named) == {both, default}

    stage.admin.alter_client_quotas(
        {alone: {RATE: None, SHARE: 5}, both: {RATE: None}, default: {RATE: None}}
    )
    assert stage.comes_true(lambda: quotas(stage, user) == {alone: {SHARE: 5.0}})
    stage.admin.alter_client_quotas({alone: {SHARE: None}})
    assert stage.comes_true(lambda: quotas(stage, user) == {})


@essential
def test_a_quota_that_is_only_validated_is_not_set(stage: Stage) -> None:
    alone = QuotaEntity(user=stage.new_name())
    stage.admin.alter_client_quotas({alone: {RATE: 1024}}, validate_only=True)
    assert stage.admin.describe_client_quotas(user=alone.user) == {}


@essential
def test_a_wrong_quota_is_the_error_of_its_entity(stage: Stage) -> None:
    right, wrong = QuotaEntity(user=stage.new_name()), QuotaEntity(user=stage.new_name())
    with pytest.raises(KafkaError) as caught:
        stage.admin.alter_client_quotas({wrong: {"speed": 3}})
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert not isinstance(caught.value, PartialFailureError)
    with pytest.raises(PartialFailureError) as several:
        stage.admin.alter_client_quotas({right: {RATE: 1024}, wrong: {"speed": 3}})
    assert several.value.errors[wrong].code is ErrorCode.INVALID_REQUEST
    assert "speed" in several.value.errors[wrong].message


@essential
def test_addresses_have_quotas(stage: Stage) -> None:
    address = QuotaEntity(ip="192.0.2.17")
    stage.admin.alter_client_quotas({address: {"connection_creation_rate": 7}})
    expected = {address: {"connection_creation_rate": 7.0}}
    assert stage.comes_true(lambda: stage.admin.describe_client_quotas(ip="192.0.2.17") == expected)
    stage.admin.alter_client_quotas({address: {"connection_creation_rate": None}})


def test_an_entity_says_whom_it_means() -> None:
    assert str(QuotaEntity(user="alice", client_id=QuotaName.DEFAULT)) == (
        "user alice, default client-id"
    )
    assert repr(QuotaEntity(ip="10.0.0.1")) == "QuotaEntity(ip='10.0.0.1')"
    with pytest.raises(ValueError, match="name one"):
        QuotaEntity()
    with pytest.raises(ValueError, match="for filters"):
        QuotaEntity(user=QuotaName.ANY)
