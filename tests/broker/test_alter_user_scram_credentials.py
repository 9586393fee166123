"""SCRAM credentials of users: set, described, removed, durable, and refused as Kafka refuses them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import session_with

from ottla.client.raw import RawConnection
from ottla.core.security.scram_formulas import ScramMechanism, salted_password
from ottla.errors import ErrorCode
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

SHA_256, SHA_512 = ScramMechanism
NEITHER = 3
SALT = b"0123456789abcdef"


def upsertion(
    user: str, mechanism: int = SHA_256, iterations: int = 4096, password: str = "secret"
) -> ScramCredentialUpsertion:
    salted = salted_password(SHA_256, password, SALT, 1)
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=salted
    )


def deletion(user: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


def alter(
    connection: RawConnection, *changes: ScramCredentialUpsertion | ScramCredentialDeletion
) -> dict[str, tuple[ErrorCode, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    response = connection.call(request, AlterUserScramCredentialsResponse, 0)
    assert len({result.user for result in response.results}) == len(response.results)
    return {
        result.user: (ErrorCode(result.error_code), result.error_message)
        for result in response.results
    }


def describe(
    connection: RawConnection, *users: str
) -> dict[str, list[tuple[int, int]] | ErrorCode]:
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users])
    response = connection.call(request, DescribeUserScramCredentialsResponse, 0)
    assert response.error_code == ErrorCode.NONE
    return {
        result.user: ErrorCode(result.error_code)
        if result.error_code
        else [(info.mechanism, info.iterations) for info in result.credential_infos]
        for result in response.results
    }


OK = (ErrorCode.NONE, None)


def test_a_user_has_a_credential_for_each_mechanism(connection: RawConnection, topic: str) -> None:
    user = f"{topic},=/ü"
    assert alter(connection, upsertion(user, iterations=8192)) == {user: OK}
    assert alter(connection, upsertion(user, SHA_512)) == {user: OK}
    assert describe(connection, user) == {user: [(SHA_256, 8192), (SHA_512, 4096)]}
    assert alter(connection, upsertion(user)) == {user: OK}
    assert describe(connection, user) == {user: [(SHA_256, 4096), (SHA_512, 4096)]}
    assert describe(connection)[user] == [(SHA_256, 4096), (SHA_512, 4096)]
    assert alter(connection, deletion(user)) == {user: OK}
    assert describe(connection, user) == {user: [(SHA_512, 4096)]}
    assert alter(connection, deletion(user, SHA_512)) == {user: OK}
    assert describe(connection, user) == {user: ErrorCode.RESOURCE_NOT_FOUND}
    assert user not in describe(connection)


def test_each_user_of_a_request_has_its_own_outcome(connection: RawConnection, topic: str) -> None:
    many, few, other, missing, twice, both = (f"{topic}-{number}" for number in range(6))
    assert alter(connection, upsertion(both)) == {both: OK}
    assert alter(
        connection,
        deletion(missing),
        deletion(both),
        upsertion(both),
        upsertion(twice),
        upsertion(twice, SHA_512),
        upsertion(many, iterations=16385),
        upsertion(few, iterations=4095),
        upsertion(other, NEITHER),
        upsertion(topic, iterations=16384),
        upsertion(""),
    ) == {
        missing: (
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
        both: (
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        ),
        twice: (
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        ),
        many: (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        few: (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        other: (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        topic: OK,
        "": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
    }
    assert describe(connection, both, twice, topic) == {
        both: [(SHA_256, 4096)],
        twice: ErrorCode.RESOURCE_NOT_FOUND,
        topic: [(SHA_256, 16384)],
    }


def test_a_user_that_is_asked_for_twice_is_not_described(
    connection: RawConnection, topic: str
) -> None:
    assert alter(connection, upsertion(topic)) == {topic: OK}
    assert describe(connection, topic, topic) == {topic: ErrorCode.DUPLICATE_RESOURCE}


def test_a_key_that_makes_no_proof_is_refused(connection: RawConnection, topic: str) -> None:
    empty = ScramCredentialUpsertion(
        name=topic, mechanism=SHA_256, iterations=4096, salt=SALT, salted_password=b""
    )
    assert alter(connection, empty)[topic][0] == ErrorCode.UNACCEPTABLE_CREDENTIAL


def test_credentials_survive_a_restart_and_passwords_are_nowhere(
    start: Starter, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    first = start(data_dir=str(tmp_path))
    kept = upsertion("kept", password="a-secret-of-this-test")
    with session_with(first) as connection:
        assert alter(connection, kept, upsertion("gone")) == {"kept": OK, "gone": OK}
        assert alter(connection, deletion("gone")) == {"gone": OK}
    first.stop()
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"user-scram/SCRAM-SHA-256/kept" in stored
    for secret in (bytes(kept.salted_password), b"a-secret-of-this-test"):
        assert secret not in stored
        assert repr(secret)[2:-1] not in caplog.text
    with session_with(start(data_dir=str(tmp_path))) as connection:
        assert describe(connection) == {"kept": [(SHA_256, 4096)]}
