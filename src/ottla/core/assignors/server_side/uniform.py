"""Kafka's `uniform` of the group coordinator: every member has as many partitions, and keeps what it can."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from ottla.core.assignors.server_side.heterogeneous import assign_heterogeneous
from ottla.core.assignors.server_side.homogeneous import assign_homogeneous
from ottla.core.assignors.server_side.model import Partitions, Subscriber, is_homogeneous


class UniformAssignor:
    """Balance goes before stickiness.

    As in Kafka, a group in which all members name the same topics is perfectly balanced, another one nearly.
    """

    name = "uniform"

    def assign(
        self, members: Mapping[str, Subscriber], partition_counts: Mapping[UUID, int]
    ) -> dict[str, Partitions]:
        if not members:
            return {}
        if is_homogeneous(members):
            return assign_homogeneous(members, partition_counts)
        return assign_heterogeneous(members, partition_counts)
