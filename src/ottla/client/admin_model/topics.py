"""Topics and partitions, as `Admin` takes and returns them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from uuid import UUID

from ottla.client.admin_model.acls import AclOperation
from ottla.client.admin_model.configs import ConfigEntry, check_config_value
from ottla.client.model import Node


@dataclass(frozen=True)
class NewTopic:
    """A topic to create; None stands for the broker's default (Kafka 2.4 or later).

    `replicas_assignments` gives the replicas of each partition, instead of the two numbers.
    """

    name: str
    num_partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str | None] = field(default_factory=dict)
    replicas_assignments: Mapping[int, Sequence[int]] | None = None

    def __post_init__(self) -> None:
        counts = (self.num_partitions, self.replication_factor)
        if self.replicas_assignments is not None and counts != (None, None):
            raise ValueError(
                f"topic {self.name!r} has replicas_assignments: leave out num_partitions and replication_factor"
            )
        for name, value in self.configs.items():
            check_config_value(name, value)


@dataclass(frozen=True)
class CreatedTopic:
    """A topic that was created or validated; brokers before Kafka 2.4 return only its name."""

    name: str
    topic_id: UUID | None = None
    num_partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, ConfigEntry] | None = None


@dataclass(frozen=True)
class TopicListing:
    """A topic in the list of topics."""

    name: str
    topic_id: UUID | None
    is_internal: bool


@dataclass(frozen=True)
class TopicPartitionInfo:
    """A partition of a described topic; eligible leader replicas are KIP-966."""

    partition: int
    leader: Node | None
    replicas: tuple[Node, ...]
    in_sync_replicas: tuple[Node, ...]
    offline_replicas: tuple[Node, ...] = ()
    leader_epoch: int | None = None
    eligible_leader_replicas: tuple[Node, ...] | None = None
    last_known_eligible_leader_replicas: tuple[Node, ...] | None = None


@dataclass(frozen=True)
class TopicDescription:
    """A topic and its partitions, in their order."""

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: tuple[TopicPartitionInfo, ...]
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True)
class NewPartitions:
    """The new number of partitions of a topic, and the replicas of the new ones."""

    total_count: int
    new_assignments: Sequence[Sequence[int]] | None = None


class ElectionType(IntEnum):
    """Which replicas may be elected (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True)
class PartitionReassignment:
    """A reassignment of replicas that is under way (KIP-455)."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
