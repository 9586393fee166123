"""SCRAM credentials of users."""

from __future__ import annotations

import pytest
from tests.client.admin.stage import Stage, essential

from ottla.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from ottla.errors import ErrorCode, KafkaError, PartialFailureError

SHA_256, SHA_512 = ScramMechanism


def credentials(stage: Stage, user: str) -> set[ScramCredentialInfo]:
    return set(stage.admin.describe_user_scram_credentials().get(user, ()))


@essential
def test_credentials_are_created_replaced_and_deleted(stage: Stage) -> None:
    user = stage.new_name()
    stage.admin.alter_user_scram_credentials(
        [
            UserScramCredentialUpsertion(user, "secret"),
            UserScramCredentialUpsertion(user, "secret", SHA_512, 8192),
        ]
    )
    both = {ScramCredentialInfo(SHA_256, 4096), ScramCredentialInfo(SHA_512, 8192)}
    assert stage.comes_true(lambda: credentials(stage, user) == both)
    assert set(stage.admin.describe_user_scram_credentials([user])[user]) == both
    assert stage.admin.describe_user_scram_credentials([]) == {}

    stage.admin.alter_user_scram_credentials(
        [
            UserScramCredentialUpsertion(user, "other", iterations=5000, salt=b"salt"),
            UserScramCredentialDeletion(user, SHA_512),
        ]
    )
    left = {ScramCredentialInfo(SHA_256, 5000)}
    assert stage.comes_true(lambda: credentials(stage, user) == left)
    stage.admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, SHA_256)])
    assert stage.comes_true(lambda: user not in stage.admin.describe_user_scram_credentials())
    with pytest.raises(KafkaError) as caught:
        stage.admin.describe_user_scram_credentials([user])
    assert caught.value.code is ErrorCode.RESOURCE_NOT_FOUND
    assert caught.value.context["user"] == user


@essential
def test_each_user_has_an_error_of_its_own(stage: Stage) -> None:
    there, missing = stage.new_name(), stage.new_name()
    with pytest.raises(PartialFailureError) as caught:
        stage.admin.alter_user_scram_credentials(
            [
                UserScramCredentialUpsertion(there, "secret"),
                UserScramCredentialDeletion(missing, SHA_256),
            ]
        )
    assert list(caught.value.results) == [there]
    assert caught.value.errors[missing].code is ErrorCode.RESOURCE_NOT_FOUND
    assert stage.comes_true(lambda: credentials(stage, there) != set())
    with pytest.raises(PartialFailureError) as caught:
        stage.admin.describe_user_scram_credentials([there, missing])
    assert caught.value.results == {there: (ScramCredentialInfo(SHA_256, 4096),)}
    assert caught.value.errors[missing].code is ErrorCode.RESOURCE_NOT_FOUND


def test_what_cannot_be_a_credential_is_refused_before_it_is_sent() -> None:
    with pytest.raises(ValueError, match="password of user alice is empty"):
        UserScramCredentialUpsertion("alice", "")
    with pytest.raises(ValueError, match="name that is not empty"):
        UserScramCredentialDeletion("", SHA_256)
    for iterations in (4095, 16385):
        with pytest.raises(ValueError, match="4096 to 16384"):
            UserScramCredentialUpsertion("alice", "secret", iterations=iterations)


def test_a_credential_cannot_be_altered_twice(stage: Stage) -> None:
    both: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion("alice", "secret"),
        UserScramCredentialDeletion("alice", SHA_256),
    ]
    with pytest.raises(ValueError, match="two alterations of SCRAM-SHA-256 of user alice"):
        stage.admin.alter_user_scram_credentials(both)


def test_nothing_shows_a_password() -> None:
    wanted = UserScramCredentialUpsertion("alice", "secret", salt=b"pepper")
    assert "secret" not in repr(wanted)
    assert "pepper" not in repr(wanted)
