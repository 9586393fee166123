"""An authorizer for tests: it allows what the test says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.broker.requests import on_loop

import ottla
from ottla.access import Operation, Resource, ResourceType
from ottla.broker.security.authorizer import OpenAuthorizer
from ottla.broker.security.caller import Caller


class Right(NamedTuple):
    """What may be done with one resource."""

    operation: Operation
    resource: Resource


class Rights:
    """Allows clients these rights and nothing else; each implies DESCRIBE, as in Kafka. Nodes may do everything."""

    is_open = False

    def __init__(self, rights: Iterable[Right]) -> None:
        self._rights = frozenset(rights)
        self.asked: list[Right] = []
        self.denied: list[Right] = []

    def allows(
        self,
        caller: Caller,
        operation: Operation,
        resource: Resource,
        *,
        logs_denied: bool = True,
    ) -> bool:
        self.asked.append(Right(operation, resource))
        if caller.is_node or Right(operation, resource) in self._rights:
            return True
        implied = any(right.resource == resource for right in self._rights)
        if operation is Operation.DESCRIBE and implied:
            return True
        if logs_denied:
            self.denied.append(Right(operation, resource))
        return False

    def allows_some(
        self, caller: Caller, operation: Operation, resource_type: ResourceType
    ) -> bool:
        return caller.is_node or any(
            right.operation is operation and right.resource.type is resource_type
            for right in self._rights
        )


@contextmanager
def only(broker: ottla.Broker, *rights: Right) -> Iterator[Rights]:
    """Clients have these rights, until the block is over."""
    authorizer = Rights(rights)
    on_loop(broker, lambda found: setattr(found.node, "authorizer", authorizer))
    try:
        yield authorizer
    finally:
        on_loop(broker, lambda found: setattr(found.node, "authorizer", OpenAuthorizer()))
