"""Altering many resources, as AlterConfigs and IncrementalAlterConfigs do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.access import Operation
from ottla.broker.catalog_changes import Decision
from ottla.broker.config_resources.broker_resources import BrokerResources
from ottla.broker.config_resources.logger_resources import LoggerResources
from ottla.broker.config_resources.resource_kind import ResourceKind
from ottla.broker.config_resources.resource_kinds import find_kind
from ottla.broker.loop.loop_share import Steps, awaited
from ottla.broker.node import Node
from ottla.broker.requests.divisions import Division, Repeated
from ottla.broker.security.authorization import refuse_config_resource
from ottla.broker.security.caller import Caller
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode

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


class _Altered(NamedTuple):
    """The options of a resource as they were, and as they are to be."""

    before: Mapping[str, str]
    after: dict[str, str]


def alter_all(
    node: Node, caller: Caller, wanted: Sequence[Alteration], validate_only: bool
) -> Steps[list[Refused | None]]:
    """Alters resources in their order; one that is named twice is refused.

    Topics that follow each other are altered in one step: their options do not depend on each other's.
    """
    times = Counter((asked.resource_type, asked.name) for asked in wanted)
    outcomes: list[Refused | None] = []
    together: list[Alteration] = []
    for asked in wanted:
        kind = find_kind(asked.resource_type)
        refused: Refused | None = None
        if times[asked.resource_type, asked.name] > 1:
            refused = Refused(ErrorCode.INVALID_REQUEST, "the resource is named twice")
        elif isinstance(kind, Refused):
            refused = kind
        elif asked.malformed is not None:
            refused = asked.malformed
        if refused is not None or not _may_join(together, asked):
            outcomes += yield from _alter(node, caller, together, validate_only)
            together = []
        if refused is None:
            together.append(asked)
        else:
            outcomes.append(refused)
    outcomes += yield from _alter(node, caller, together, validate_only)
    return outcomes


def _may_join(together: Sequence[Alteration], asked: Alteration) -> bool:
    """Whether a resource can be altered in one step with those before it."""
    if not together:
        return True
    kind = find_kind(asked.resource_type)
    return (
        together[0].resource_type == asked.resource_type
        and not isinstance(kind, Refused)
        and kind.stored_together
    )


def _alter(
    node: Node, caller: Caller, together: Sequence[Alteration], validate_only: bool
) -> Steps[list[Refused | None]]:
    """Alters resources of one kind in one step."""
    if not together:
        return []
    kind = find_kind(together[0].resource_type)
    assert not isinstance(kind, Refused)
    decided: list[_Altered | Refused] = []

    def decide() -> Decision[None]:
        decided.clear()
        changed: dict[str, dict[str, str]] = {}
        for asked in together:
            altered = _permitted(node, caller, kind, asked)
            decided.append(altered)
            if isinstance(altered, _Altered):
                changed[asked.name] = altered.after
        return Decision(kind.changes(node, changed) if changed and not validate_only else {}, None)

    failed = yield from awaited(node.cluster.change(decide))
    if failed is None and not validate_only:
        for asked, altered in zip(together, decided, strict=True):
            if isinstance(altered, _Altered):
                kind.changed_to(node, asked.name, altered.before, altered.after)
    return [one if isinstance(one, Refused) else failed for one in decided]


def _permitted(
    node: Node, caller: Caller, kind: ResourceKind, asked: Alteration
) -> _Altered | Refused:
    """The new options of a resource, if the caller may set them.

    As in Kafka, whose brokers check their own options before a controller checks the caller, options of brokers are
    judged for everybody; about other resources a caller without the right learns nothing.
    """
    options: _Altered | Refused = _Altered({}, {})
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


def _decide(node: Node, kind: ResourceKind, asked: Alteration) -> _Altered | Refused:
    """The new options of a resource, or why they are refused."""
    current = kind.options_set(node, asked.name)
    if isinstance(current, Refused):
        return current
    options = asked.change(kind, current)
    if isinstance(options, Refused):
        return options
    return kind.check(node, asked.name, options) or _Altered(current, options)
