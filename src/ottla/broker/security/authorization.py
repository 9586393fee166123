"""What handlers ask before they do something: the refusal for a caller that may not, or None.

Without an authorizer nothing is looked at: `is_open` comes first in each of these.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

from ottla import access
from ottla.access import CLUSTER, SUPPORTED_OPERATIONS, Operation, Resource, ResourceType
from ottla.broker.node import Node
from ottla.broker.security.caller import Caller
from ottla.config.options import ResourceType as ConfigResourceType
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode

# The sentences are Kafka's: its tools print them.
TOPIC_DENIED: Final = Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
GROUP_DENIED: Final = Refused(ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed.")
TRANSACTIONAL_ID_DENIED: Final = Refused(
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactional Id authorization failed."
)
CLUSTER_DENIED: Final = Refused(
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
)
_NO_AUTHORIZER: Final = Refused(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


class _EveryTopic:
    """The names of all topics."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        return True


EVERY_TOPIC: Final = _EveryTopic()


def refuse_group(node: Node, caller: Caller, operation: Operation, group_id: str) -> Refused | None:
    authorizer = node.authorizer
    if authorizer.is_open or authorizer.allows(caller, operation, access.group(group_id)):
        return None
    return GROUP_DENIED


def refuse_topic(node: Node, caller: Caller, operation: Operation, name: str) -> Refused | None:
    authorizer = node.authorizer
    if authorizer.is_open or authorizer.allows(caller, operation, access.topic(name)):
        return None
    return TOPIC_DENIED


def refuse_topics(
    node: Node, caller: Caller, operation: Operation, names: Iterable[str]
) -> Refused | None:
    """The refusal if the caller may not do it with one of the topics."""
    if node.authorizer.is_open:
        return None
    refused = [refuse_topic(node, caller, operation, name) for name in dict.fromkeys(names)]
    return TOPIC_DENIED if any(refused) else None


def refuse_transactional_id(
    node: Node, caller: Caller, operation: Operation, name: str
) -> Refused | None:
    authorizer = node.authorizer
    if authorizer.is_open or authorizer.allows(caller, operation, access.transactional_id(name)):
        return None
    return TRANSACTIONAL_ID_DENIED


def refuse_cluster(node: Node, caller: Caller, operation: Operation) -> Refused | None:
    authorizer = node.authorizer
    if authorizer.is_open or authorizer.allows(caller, operation, CLUSTER):
        return None
    return CLUSTER_DENIED


def refuse_acl_changes(node: Node, caller: Caller) -> Refused | None:
    """ACLs can be changed where there is an authorizer, by callers that may alter the cluster."""
    if node.authorizer.is_open:
        return _NO_AUTHORIZER
    return refuse_cluster(node, caller, Operation.ALTER)


def refuse_config_resource(
    node: Node, caller: Caller, operation: Operation, resource_type: int, name: str
) -> Refused | None:
    """The refusal for the configs of a resource; those of brokers, loggers and client metrics are the cluster's."""
    if resource_type == ConfigResourceType.TOPIC:
        return refuse_topic(node, caller, operation, name)
    if resource_type == ConfigResourceType.GROUP:
        return refuse_group(node, caller, operation, name)
    return refuse_cluster(node, caller, operation)


def has_cluster_right(node: Node, caller: Caller, operation: Operation) -> bool:
    """Whether the caller may do it in the whole cluster; if not, a right on the topic may be enough."""
    authorizer = node.authorizer
    return authorizer.is_open or authorizer.allows(caller, operation, CLUSTER, logs_denied=False)


def refuse_idempotent_producer(node: Node, caller: Caller) -> Refused | None:
    """The refusal if the caller may write nowhere (KIP-679)."""
    authorizer = node.authorizer
    if (
        authorizer.is_open
        or authorizer.allows(caller, Operation.IDEMPOTENT_WRITE, CLUSTER, logs_denied=False)
        or authorizer.allows_some(caller, Operation.WRITE, ResourceType.TOPIC)
    ):
        return None
    return CLUSTER_DENIED


# What a caller may not describe is left out of lists: no attempt of the caller's was denied.


def may_see_topic(node: Node, caller: Caller, name: str) -> bool:
    authorizer = node.authorizer
    return authorizer.is_open or authorizer.allows(
        caller, Operation.DESCRIBE, access.topic(name), logs_denied=False
    )


def may_see_topic_configs(node: Node, caller: Caller, name: str) -> bool:
    authorizer = node.authorizer
    return authorizer.is_open or authorizer.allows(
        caller, Operation.DESCRIBE_CONFIGS, access.topic(name), logs_denied=False
    )


def may_see_group(node: Node, caller: Caller, group_id: str) -> bool:
    authorizer = node.authorizer
    return authorizer.is_open or authorizer.allows(
        caller, Operation.DESCRIBE, access.group(group_id), logs_denied=False
    )


def may_see_transactional_id(node: Node, caller: Caller, name: str) -> bool:
    authorizer = node.authorizer
    return authorizer.is_open or authorizer.allows(
        caller, Operation.DESCRIBE, access.transactional_id(name), logs_denied=False
    )


def allowed_topics(
    node: Node, caller: Caller, operation: Operation, names: Iterable[str]
) -> Container[str]:
    """The topics among these with which the caller may do it; each is asked about once."""
    authorizer = node.authorizer
    if authorizer.is_open:
        return EVERY_TOPIC
    return {
        name
        for name in dict.fromkeys(names)
        if authorizer.allows(caller, operation, access.topic(name))
    }


# Authorized operations (KIP-430): an answer has them as bits.


def authorized_operations(node: Node, caller: Caller, resource: Resource) -> int:
    """The operations that the caller may do with a resource; all that there are without an authorizer."""
    allows = node.authorizer.allows
    bits = 0
    for operation in SUPPORTED_OPERATIONS[resource.type]:
        if allows(caller, operation, resource, logs_denied=False):
            bits |= 1 << operation
    return bits


def describable_cluster_operations(node: Node, caller: Caller) -> int:
    """The operations on the cluster; none for a caller that may not describe it."""
    if refuse_cluster(node, caller, Operation.DESCRIBE) is not None:
        return 0
    return authorized_operations(node, caller, CLUSTER)


def group_operations(node: Node, caller: Caller, group_id: str) -> int:
    return authorized_operations(node, caller, access.group(group_id))
