"""A broker with its callers: connections, the ACLs in force, questions and their answers."""

from __future__ import annotations

import time
from collections.abc import Container, Mapping
from contextlib import ExitStack
from typing import Any
from uuid import UUID

from tests.broker.requests import eventually
from tests.security.kafka_answers.answer_text import AnswerText
from tests.security.kafka_answers.brokers import PASSWORDS, Addresses
from tests.security.kafka_answers.message_builder import classes_of, last_version, request_of
from tests.security.kafka_answers.situations import ADMIN, CALLER, Acl, Situation

from ottla.access import Operation, PatternType, Permission, ResourceType
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode

SETTLE_SECONDS = 0.05
_EVERY_ACL = {
    "resource_type_filter": ResourceType.ANY,
    "pattern_type_filter": PatternType.ANY,
    "operation": Operation.ANY,
    "permission_type": Permission.ANY,
}


def ask(connection: RawConnection, api: str, version: int, fields: Mapping[str, Any]) -> Any:
    return connection.call(request_of(api, fields), classes_of(api)[1], version)


def logged_in(address: str, principal: str) -> RawConnection:
    """A connection of a user."""
    connection = RawConnection(address)
    answer = ask(connection, "SaslHandshake", 1, {"mechanism": "PLAIN"})
    assert answer.error_code == ErrorCode.NONE, answer
    user = principal.removeprefix("User:")
    token = f"\0{user}\0{PASSWORDS[user]}".encode()
    answer = ask(connection, "SaslAuthenticate", 2, {"auth_bytes": token})
    assert answer.error_code == ErrorCode.NONE, answer
    return connection


class Stage:
    """Where questions are asked; `topics` and `names` make answers comparable."""

    def __init__(self, addresses: Addresses, stack: ExitStack) -> None:
        self._addresses = addresses
        self._stack = stack
        self._connections: dict[str, RawConnection] = {}
        # Whatever has an authorizer of its own.
        self._authorizing = [
            stack.enter_context(logged_in(address, ADMIN))
            for address in (addresses.login, addresses.controller)
            if address is not None
        ]
        self._in_force: frozenset[Acl] = frozenset()
        self.topics: dict[UUID, str] = {}
        self.names: dict[str, str] = {}

    def _connection_of(self, caller: str) -> RawConnection:
        if caller not in self._connections:
            self._connections[caller] = self._stack.enter_context(
                RawConnection(self._addresses.anonymous)
                if caller == CALLER
                else logged_in(self._addresses.login, caller)
            )
        return self._connections[caller]

    def call(self, api: str, /, *, version: int | None = None, **fields: Any) -> Any:
        """A request of the super user, in the newest version unless said otherwise."""
        connection = self._connection_of(ADMIN)
        return ask(connection, api, last_version(api) if version is None else version, fields)

    def answer(
        self, api: str, version: int, fields: Mapping[str, Any], situation: Situation
    ) -> Any:
        """What is answered in a situation; None if the connection is closed."""
        self._put_in_force(situation.acls)
        try:
            return ask(self._connection_of(situation.caller), api, version, fields)
        except (ConnectionResetError, BrokenPipeError):
            del self._connections[situation.caller]
            return None

    def settle(self) -> None:
        """Until what the last request changed is known to all; only Apache Kafka takes a while."""
        if self._addresses.controller is not None:
            time.sleep(SETTLE_SECONDS)

    def text_of(self, answer: Any, with_messages: Container[ErrorCode]) -> str:
        if answer is None:
            return "the connection is closed"
        return "\n".join(AnswerText(self.topics, self.names, with_messages).lines(answer))

    def _put_in_force(self, acls: frozenset[Acl]) -> None:
        if acls == self._in_force:
            return
        if self._in_force - acls:
            self.call(
                "DeleteAcls", filters=[_exactly(acl) for acl in sorted(self._in_force - acls)]
            )
        if acls - self._in_force:
            answer = self.call(
                "CreateAcls", creations=[_creation(acl) for acl in sorted(acls - self._in_force)]
            )
            assert all(one.error_code == ErrorCode.NONE for one in answer.results), answer
        self._in_force = acls
        for connection in self._authorizing:
            assert eventually(lambda: _acls_of(connection) == acls)  # noqa: B023


def _creation(acl: Acl) -> dict[str, Any]:
    return {
        "resource_type": acl.type,
        "resource_name": acl.name,
        "resource_pattern_type": acl.pattern,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }


def _exactly(acl: Acl) -> dict[str, Any]:
    return {
        "resource_type_filter": acl.type,
        "resource_name_filter": acl.name,
        "pattern_type_filter": acl.pattern,
        "principal_filter": acl.principal,
        "host_filter": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }


def _acls_of(connection: RawConnection) -> frozenset[Acl]:
    answer = ask(connection, "DescribeAcls", 3, _EVERY_ACL)
    return frozenset(
        Acl(
            ResourceType(resource.resource_type),
            Operation(acl.operation),
            resource.resource_name,
            PatternType(resource.pattern_type),
            Permission(acl.permission_type),
            acl.principal,
            acl.host,
        )
        for resource in answer.resources
        for acl in resource.acls
    )
