"""Committing offsets of a group in a producer's transaction (TxnOffsetCommit)."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from ottla.broker.coordination.coordinator import Coordinator, unchanged
from ottla.broker.coordination.groups import find_group
from ottla.broker.coordination.verification import confirm
from ottla.broker.node import Node
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import CommitSender, NewOffsets
from ottla.core.outcomes import Refused
from ottla.core.producer_state import Verification
from ottla.core.turn import ProducerIdentity, Turn
from ottla.core.txn.events import VERSION_2
from ottla.model import TopicPartition


class TransactionalCommit(NamedTuple):
    """The group member that commits offsets, and the transaction in which it does."""

    sender: CommitSender
    transactional_id: str
    producer: ProducerIdentity
    transaction_version: int


async def commit_in_transaction(
    node: Node, commit: TransactionalCommit, offsets: list[NewOffsets]
) -> list[Refused | None] | Refused:
    """Commits offsets; the first commit of a transaction has its coordinator confirm it (KIP-890)."""
    if not offsets:
        return []
    coordinator = find_group(node.groups, commit.sender.group_id)
    if isinstance(coordinator, Refused):
        return coordinator
    version = commit.transaction_version
    needed = coordinator.shard.partition.own_verification_for(*commit.producer, version)
    if isinstance(needed, Refused):
        return needed
    verification = needed if isinstance(needed, Verification) else None
    if verification is not None and _must_ask(node, version):
        refused = await _confirm(node, coordinator, commit)
        if refused is not None:
            return refused
    decided = coordinator.ask(
        lambda groups, turn, _: _decide(coordinator, groups, turn, commit, verification, offsets),
        unchanged,
    )
    return await decided if isinstance(decided, asyncio.Future) else decided


def _must_ask(node: Node, transaction_version: int) -> bool:
    config = node.options.config
    return transaction_version >= VERSION_2 or config.transaction_partition_verification_enable


async def _confirm(
    node: Node, coordinator: Coordinator[GroupMachine], commit: TransactionalCommit
) -> Refused | None:
    """Whether the group's partition belongs to the transaction."""
    ref = coordinator.shard.log.ref
    partition = TopicPartition(ref.topic, ref.partition)
    confirmed = confirm(
        node, commit.transactional_id, commit.producer, [partition], commit.transaction_version
    )
    if not isinstance(confirmed, dict):
        confirmed = await confirmed()
    return confirmed[partition]


def _decide(
    coordinator: Coordinator[GroupMachine],
    groups: GroupMachine,
    turn: Turn,
    commit: TransactionalCommit,
    verification: Verification | None,
    offsets: list[NewOffsets],
) -> list[Refused | None] | Refused:
    """Commits, unless a marker has ended the transaction while its coordinator was asked."""
    refused = coordinator.shard.partition.check_own(*commit.producer, verification)
    if refused is not None:
        return refused
    return groups.commit_in_transaction(turn, commit.sender, commit.producer, offsets)
