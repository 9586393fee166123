"""All that the cluster has told so far, and what has changed since the last snapshot; of the poller's thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.admin_model.cluster import ClusterDescription
from ottla.client.admin_model.groups import GroupListing, GroupState
from ottla.client.admin_model.topics import TopicDescription
from ottla.client.admin_model.transactions import TransactionDescription, TransactionListing
from ottla.console.cluster.answers import (
    ClusterAnswers,
    LogDirs,
    Offsets,
    PlacedPartitions,
    Rates,
    Replica,
    placed_partitions,
    replica_sizes,
)
from ottla.console.cluster.moving_offsets import EndOffsets, GroupOffsets, GrowingLogs
from ottla.console.cluster.part_states import PartStates
from ottla.console.cluster.snapshot import ClusterSnapshot, TopicSettings
from ottla.console.cluster.snapshot_of import Changes, snapshot_of
from ottla.model import TopicPartition

_WITHOUT_MEMBERS = (GroupState.EMPTY, GroupState.DEAD)


class KnownCluster:
    """One cluster; another one behind the same addresses needs another."""

    def __init__(self, cluster: ClusterDescription) -> None:
        self.cluster = cluster
        self.states = PartStates()
        self.topics: dict[str, TopicDescription] = {}
        self.led: list[TopicPartition] = []
        """The partitions that have a leader, which can be asked."""
        self.ends = EndOffsets()
        self.stable: dict[TopicPartition, int] = {}
        self.starts: dict[TopicPartition, int] = {}
        self.unstable: set[TopicPartition] = set()
        """The partitions whose last stable offset is behind the end."""
        self.settings: dict[str, TopicSettings] = {}
        self.groups: Mapping[str, GroupListing] = {}
        self.group_offsets = GroupOffsets()
        self.transactions: Mapping[str, TransactionListing] = {}
        self.described: dict[str, TransactionDescription] = {}
        self.transactional_id_count: int | None = None
        self._placed = PlacedPartitions()
        self._log_dirs: LogDirs = {}
        self._sizes: dict[Replica, int] = {}
        self._logs = GrowingLogs()
        self._changed: set[str] = set()
        self._snapshot: ClusterSnapshot | None = None

    # Topics

    def add_topics(self, found: Mapping[str, TopicDescription]) -> None:
        """All topics; a topic with another id is another one."""
        known = self.topics
        gone = {
            name
            for name, topic in known.items()
            if name not in found or found[name].topic_id != topic.topic_id
        }
        if gone:
            self._forget(gone)
        # Equal descriptions are kept, so that there is one of each in memory.
        self.topics = {
            name: known[name] if known.get(name) == topic else topic
            for name, topic in found.items()
        }
        changed = {name for name, topic in self.topics.items() if known.get(name) is not topic}
        if not changed and not gone:
            return
        self._changed |= changed
        self._placed = placed_partitions(self.topics.values())
        self.led = []
        offline: list[TopicPartition] = []
        for name, topic in self.topics.items():
            for each in topic.partitions:
                (offline if each.leader is None else self.led).append(
                    TopicPartition(name, each.partition)
                )
        self.ends.stand_still(offline)
        self.unstable.difference_update(offline)

    def _forget(self, gone: set[str]) -> None:
        self.ends.forget(gone)
        self._logs.forget(gone)
        for offsets in (self.stable, self.starts):
            for key in [key for key in offsets if key.topic in gone]:
                del offsets[key]
        self.unstable = {key for key in self.unstable if key.topic not in gone}
        for name in gone:
            self.settings.pop(name, None)
        self._changed |= gone

    def add_end_offsets(self, found: Offsets, at: float) -> None:
        """The ends of some partitions."""
        self._note(self.ends.offsets, found)
        self.ends.add(found, at)

    def stable_to_ask(self, asked: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Of partitions whose ends were just told, those whose last stable offset may be another than before."""
        ends = self.ends.offsets
        return [key for key in asked if key in ends and self.stable.get(key) != ends[key]]

    def add_stable_offsets(self, found: Offsets) -> None:
        """The last stable offsets of some partitions."""
        self._note(self.stable, found)
        self.stable.update(found)
        for key, offset in found.items():
            if offset < self.ends.offsets.get(key, offset):
                self.unstable.add(key)
            else:
                self.unstable.discard(key)

    def add_start_offsets(self, found: Offsets) -> None:
        """The first offsets of some partitions."""
        self._note(self.starts, found)
        self.starts.update(found)

    def _note(self, known: Offsets, found: Offsets) -> None:
        self._changed.update(key.topic for key, offset in found.items() if known.get(key) != offset)

    def add_settings(self, found: Mapping[str, TopicSettings]) -> None:
        """The configs of some topics."""
        for name, settings in found.items():
            if self.settings.get(name) != settings:
                self.settings[name] = settings
                self._changed.add(name)

    # Brokers

    def add_log_dirs(self, found: LogDirs, at: float) -> None:
        """The log directories of some brokers; those of others stay."""
        brokers = {node.id for node in self.cluster.nodes}
        kept = {broker: dirs for broker, dirs in self._log_dirs.items() if broker in brokers}
        self._log_dirs = {**kept, **found}
        sizes = replica_sizes(self._log_dirs)
        self._changed.update(
            key[1].topic for key, size in sizes.items() if self._sizes.get(key) != size
        )
        self._changed.update(key[1].topic for key in self._sizes if key not in sizes)
        self._sizes = sizes
        self._logs.add(self._leader_sizes(), at)

    def _leader_sizes(self) -> dict[str, int]:
        """By topic, as far as the sizes of all its partitions are known."""
        found: dict[str, int] = {}
        for name, topic in self.topics.items():
            total = 0
            for each in topic.partitions:
                leader = each.leader
                key = TopicPartition(name, each.partition)
                size = None if leader is None else self._sizes.get((leader.id, key))
                if size is None:
                    break
                total += size
            else:
                found[name] = total
        return found

    # Groups and transactions

    def add_groups(self, found: Mapping[str, GroupListing]) -> None:
        """All groups."""
        self.groups = found
        self.group_offsets.keep_only(found)

    def has_members(self, group_id: str) -> bool:
        """Whether a group may read now; a listing without a state does not tell."""
        listing = self.groups.get(group_id)
        return listing is not None and listing.state not in _WITHOUT_MEMBERS

    def add_committed(self, found: Mapping[str, Offsets], at: float) -> None:
        """The offsets of some groups."""
        for group_id, offsets in found.items():
            self.group_offsets.add(group_id, offsets, at, has_members=self.has_members(group_id))

    def add_transactions(self, found: Mapping[str, TransactionListing]) -> None:
        """All that are open."""
        self.transactions = found
        self.described = {name: each for name, each in self.described.items() if name in found}

    # Snapshots

    def snapshot(self, version: int, at_ms: int) -> ClusterSnapshot:
        """All that is known now."""
        answers = ClusterAnswers(
            self.cluster,
            self.topics,
            start_offsets=self.starts,
            end_offsets=self.ends.offsets,
            stable_offsets=self.stable,
            placed=self._placed,
            log_dirs=self._log_dirs,
            sizes=self._sizes,
            settings=self.settings,
            groups=self.groups,
            committed=self.group_offsets.committed,
            transactions=self.transactions,
            described=self.described,
            transactional_id_count=self.transactional_id_count,
            told_at_ms=dict(self.states.told_at_ms),
            problems=self.states.problems,
        )
        rates = Rates(self.ends.rates(), self._logs.rates, self.group_offsets.rates())
        changes = None if self._snapshot is None else Changes(self._snapshot, self._changed)
        self._snapshot = snapshot_of(answers, version, at_ms, rates, changes)
        self._changed = set()
        return self._snapshot
