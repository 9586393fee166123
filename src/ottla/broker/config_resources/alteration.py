"""Altering many resources, as AlterConfigs and IncrementalAlterConfigs do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.access import Operation
from ottla.broker.config_resources.broker_resources import BrokerResources
from ottla.broker.config_resources.logger_resources import LoggerResources
from ottla.broker.config_resources.resource_kind import ResourceKind
from ottla.broker.config_resources.resource_kinds import find_kind
from ottla.broker.node import Node
from ottla.broker.requests.divisions import Division, Repeated
from ottla.broker.security.authorization import refuse_config_resource
from ottla.broker.security.caller import Caller
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.ports import StorageError

# How a request to alter many resources is divided.
RESOURCES: Final = Division(
    "resources",
    "responses",
    piece_elements=64,
    repeated=Repeated(("resource_type", "resource_name"), most=2),
)


class Alteration(NamedTuple):
    """A resource to alter; `change` makes its new options of those that were set.

    `malformed` is what is wrong with the request whatever the resource is.
    """

    resource_type: int
    name: str
    malformed: Refused | None
    change: Callable[[ResourceKind, Mapping[str, str]], dict[str, str] | Refused]


class _Decided:
    """Changes of one kind of resource that were decided but not stored, by their place among the outcomes."""

    def __init__(self, node: Node, outcomes: list[Refused | None]) -> None:
        self._node = node
        self._outcomes = outcomes
        self._kind: ResourceKind | None = None
        self._changes: dict[int, tuple[str, dict[str, str]]] = {}

    def store_before(self, kind: ResourceKind) -> None:
        """Stores what was decided, unless it may be stored together with a change of this kind."""
        if self._kind is not kind or not kind.stored_together:
            self.store()
            self._kind = kind

    def add(self, name: str, options: dict[str, str]) -> None:
        self._changes[len(self._outcomes)] = (name, options)

    def store(self) -> None:
        if not self._changes:
            return
        assert self._kind is not None
        try:
            self._kind.store(self._node, dict(self._changes.values()))
        except StorageError as error:
            for place in self._changes:
                self._outcomes[place] = Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        self._changes.clear()


def alter_all(
    node: Node, caller: Caller, wanted: Sequence[Alteration], validate_only: bool
) -> list[Refused | None]:
    """Alters resources in their order; one that is named twice is refused.

    Topics that follow each other are altered in one step: their options do not depend on each other's.
    """
    times = Counter((asked.resource_type, asked.name) for asked in wanted)
    outcomes: list[Refused | None] = []
    decided = _Decided(node, outcomes)
    for asked in wanted:
        refused: Refused | None = None
        kind = find_kind(asked.resource_type)
        if times[asked.resource_type, asked.name] > 1:
            refused = Refused(ErrorCode.INVALID_REQUEST, "the resource is named twice")
        elif isinstance(kind, Refused):
            refused = kind
        elif asked.malformed is not None:
            refused = asked.malformed
        else:
            decided.store_before(kind)
            options = _permitted(node, caller, kind, asked)
            if isinstance(options, Refused):
                refused = options
            elif not validate_only:
                decided.add(asked.name, options)
        outcomes.append(refused)
    decided.store()
    return outcomes


def _permitted(
    node: Node, caller: Caller, kind: ResourceKind, asked: Alteration
) -> dict[str, str] | Refused:
    """The new options of a resource, if the caller may set them.

    As in Kafka, whose brokers check their own options before a controller checks the caller, options of brokers are
    judged for everybody; about other resources a caller without the right learns nothing.
    """
    options: dict[str, str] | Refused = {}
    judges_first = isinstance(kind, BrokerResources)
    if judges_first:
        options = _decide(node, kind, asked)
        if isinstance(options, Refused):
            return options
    refused = refuse_config_resource(
        node, caller, Operation.ALTER_CONFIGS, asked.resource_type, asked.name
    )
    if refused is not None:
        # The answer about loggers has no message in Kafka either.
        return Refused(refused.error) if isinstance(kind, LoggerResources) else refused
    return options if judges_first else _decide(node, kind, asked)


def _decide(node: Node, kind: ResourceKind, asked: Alteration) -> dict[str, str] | Refused:
    """The new options of a resource, or why they are refused."""
    current = kind.options_set(node, asked.name)
    if isinstance(current, Refused):
        return current
    options = asked.change(kind, current)
    if isinstance(options, Refused):
        return options
    return kind.check(node, asked.name, options) or options
