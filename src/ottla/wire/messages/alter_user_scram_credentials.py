"""AlterUserScramCredentials: sets and removes SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Bytes, Int8, Int16, Int32, String


@struct
class ScramCredentialDeletion:
    name: String
    mechanism: Int8


@struct
class ScramCredentialUpsertion:
    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes
    salted_password: Bytes


@message(api=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


@struct
class AlterUserScramCredentialsResult:
    user: String
    error_code: Int16
    error_message: String | None


@message(api=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    throttle_time_ms: Int32 = wire(default=0)
    results: list[AlterUserScramCredentialsResult]
