"""SCRAM credentials of users: alter, describe (KIP-554)."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Iterable

from ottla.client.admin_model.users import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from ottla.client.aio.admin.answers import Answers
from ottla.client.aio.admin.nodes import AnyNode, Controller
from ottla.client.aio.admin.requests import AdminCalls, ApiCall, timeout_in_seconds
from ottla.client.aio.admin.topics import as_list
from ottla.client.security.scram import HASHES
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    UserName,
)

_ALL = "all"
_SALT_BYTES = 16

Infos = tuple[ScramCredentialInfo, ...]


class UserCalls(AdminCalls):
    """The calls about SCRAM credentials."""

    @timeout_in_seconds
    async def alter_user_scram_credentials(
        self,
        alterations: Iterable[UserScramCredentialAlteration],
        *,
        timeout: float | None = None,
    ) -> None:
        """Create, replace and delete SCRAM credentials (Kafka 2.7 or later).

        Passwords are salted and hashed here; the cluster never gets them.
        """
        by_user: dict[str, list[UserScramCredentialAlteration]] = {}
        for alteration in alterations:
            by_user.setdefault(alteration.user, []).append(alteration)
        # Hashing takes milliseconds for each password, which the loop must not wait for.
        salted = {
            each: await asyncio.to_thread(_salted, each)
            for some in by_user.values()
            for each in some
            if isinstance(each, UserScramCredentialUpsertion)
        }

        def build(
            version: int, users: list[str], limit_ms: int
        ) -> AlterUserScramCredentialsRequest:
            wanted = [alteration for user in users for alteration in by_user[user]]
            return AlterUserScramCredentialsRequest(
                deletions=[
                    ScramCredentialDeletion(name=each.user, mechanism=each.mechanism)
                    for each in wanted
                    if isinstance(each, UserScramCredentialDeletion)
                ],
                upsertions=[
                    salted[each]
                    for each in wanted
                    if isinstance(each, UserScramCredentialUpsertion)
                ],
            )

        call = ApiCall(AlterUserScramCredentialsRequest, build, _read_altered)
        nodes: Controller[str] = Controller("user", "users")
        await self._requests.ask(by_user, nodes, call, timeout)

    @timeout_in_seconds
    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, tuple[ScramCredentialInfo, ...]]:
        """The SCRAM credentials of users, or of all that have any (Kafka 2.7 or later).

        A user without credentials is an error, RESOURCE_NOT_FOUND.
        """

        def build(
            version: int, some: list[str], limit_ms: int
        ) -> DescribeUserScramCredentialsRequest:
            named = None if users is None else [UserName(name=user) for user in some]
            return DescribeUserScramCredentialsRequest(users=named)

        nodes: AnyNode[str] = AnyNode("user", "users")
        if users is not None:
            call = ApiCall(DescribeUserScramCredentialsRequest, build, _read_described)
            return await self._requests.ask(as_list(users), nodes, call, timeout)
        call_all = ApiCall(DescribeUserScramCredentialsRequest, build, _read_all)
        return (await self._requests.ask([_ALL], nodes, call_all, timeout))[_ALL]


def _salted(wanted: UserScramCredentialUpsertion) -> ScramCredentialUpsertion:
    """The credential as it is sent."""
    password = wanted.password
    salt = secrets.token_bytes(_SALT_BYTES) if wanted.salt is None else wanted.salt
    return ScramCredentialUpsertion(
        name=wanted.user,
        mechanism=wanted.mechanism,
        iterations=wanted.iterations,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(
            HASHES[str(wanted.mechanism)],
            # As in Kafka, without SASLprep.
            password.encode() if isinstance(password, str) else password,
            salt,
            wanted.iterations,
        ),
    )


def _read_altered(
    response: AlterUserScramCredentialsResponse, answers: Answers[str, None]
) -> None:
    """The outcomes by user."""
    for result in response.results:
        answers.complete(result.user, None, result.error_code, result.error_message)


def _read_described(
    response: DescribeUserScramCredentialsResponse, answers: Answers[str, Infos]
) -> None:
    """The credentials of the users that were asked for."""
    if response.error_code:
        for user in answers.asked:
            answers.fail(user, response.error_code, response.error_message)
        return
    for result in response.results:
        answers.complete(result.user, _infos(result), result.error_code, result.error_message)


def _read_all(
    response: DescribeUserScramCredentialsResponse, answers: Answers[str, dict[str, Infos]]
) -> None:
    """The credentials of all users."""
    found = {
        result.user: _infos(result)
        for result in sorted(response.results, key=lambda each: each.user)
        if not result.error_code
    }
    answers.complete(_ALL, found, response.error_code, response.error_message)


def _infos(result: DescribeUserScramCredentialsResult) -> Infos:
    return tuple(
        ScramCredentialInfo(ScramMechanism(each.mechanism), each.iterations)
        for each in result.credential_infos
    )
