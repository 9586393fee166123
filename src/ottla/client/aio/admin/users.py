"""SCRAM credentials of users: alter, describe (KIP-554)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping

from ottla.client.admin_model.users import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)
from ottla.client.aio.admin.answers import Answers, results_or_raise
from ottla.client.aio.admin.nodes import AnyNode, Controller
from ottla.client.aio.admin.requests import AdminCalls, ApiCall, timeout_in_seconds
from ottla.client.aio.admin.topics import as_list
from ottla.core.security.scram_formulas import salted_password
from ottla.errors import KafkaError, PartialFailureError
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

        Passwords are salted and hashed here; the cluster never gets them. A user with several alterations costs a
        request for each, because brokers refuse two in one.
        """
        by_user = _by_user(alterations)
        errors: dict[str, KafkaError] = {}
        for number in range(max(map(len, by_user.values()), default=0)):
            some = {
                user: several[number]
                for user, several in by_user.items()
                if len(several) > number and user not in errors
            }
            errors |= await self._alter_users(some, timeout)
        done = {user: None for user in by_user if user not in errors}
        results_or_raise(done, errors, "users")

    async def _alter_users(
        self, wanted: Mapping[str, UserScramCredentialAlteration], timeout: float | None
    ) -> Mapping[str, KafkaError]:
        """One alteration for each user; returns the errors."""
        # Hashing takes milliseconds for each password, which the loop must not wait for.
        salted = {
            user: await asyncio.to_thread(_salted, each)
            for user, each in wanted.items()
            if isinstance(each, UserScramCredentialUpsertion)
        }

        def build(
            version: int, users: list[str], limit_ms: int
        ) -> AlterUserScramCredentialsRequest:
            return AlterUserScramCredentialsRequest(
                deletions=[
                    ScramCredentialDeletion(name=user, mechanism=wanted[user].mechanism)
                    for user in users
                    if user not in salted
                ],
                upsertions=[salted[user] for user in users if user in salted],
            )

        call = ApiCall(AlterUserScramCredentialsRequest, build, _read_altered)
        nodes: Controller[str] = Controller("user", "users")
        try:
            await self._requests.ask(wanted, nodes, call, timeout)
        except PartialFailureError as failure:
            return failure.errors
        except KafkaError as error:
            return dict.fromkeys(wanted, error)
        return {}

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
            # No users stand for all, as in Kafka's client: to null a broker that has to refuse gives no answer.
            named = [] if users is None else [UserName(name=user) for user in some]
            return DescribeUserScramCredentialsRequest(users=named)

        nodes: AnyNode[str] = AnyNode("user", "users")
        if users is not None:
            call = ApiCall(DescribeUserScramCredentialsRequest, build, _read_described)
            return await self._requests.ask(as_list(users), nodes, call, timeout)
        call_all = ApiCall(DescribeUserScramCredentialsRequest, build, _read_all)
        return (await self._requests.ask([_ALL], nodes, call_all, timeout))[_ALL]


def _by_user(
    alterations: Iterable[UserScramCredentialAlteration],
) -> dict[str, list[UserScramCredentialAlteration]]:
    found: dict[str, list[UserScramCredentialAlteration]] = {}
    for each in alterations:
        several = found.setdefault(each.user, [])
        if any(other.mechanism is each.mechanism for other in several):
            raise ValueError(f"two alterations of {each.mechanism.sasl_name} of user {each.user}")
        several.append(each)
    return found


def _salted(wanted: UserScramCredentialUpsertion) -> ScramCredentialUpsertion:
    """The credential as it is sent."""
    salt = secrets.token_bytes(_SALT_BYTES) if wanted.salt is None else wanted.salt
    return ScramCredentialUpsertion(
        name=wanted.user,
        mechanism=wanted.mechanism,
        iterations=wanted.iterations,
        salt=salt,
        salted_password=salted_password(wanted.mechanism, wanted.password, salt, wanted.iterations),
    )


def _read_altered(response: AlterUserScramCredentialsResponse, answers: Answers[str, None]) -> None:
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
    """The credentials; mechanisms of newer brokers are left out."""
    known = frozenset(ScramMechanism)
    return tuple(
        ScramCredentialInfo(ScramMechanism(each.mechanism), each.iterations)
        for each in sorted(result.credential_infos, key=lambda each: each.mechanism)
        if each.mechanism in known
    )
