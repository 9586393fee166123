"""The topics of the cluster: finding, creating, extending, configuring and deleting them."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.broker.catalog_changes import Decision
from ottla.broker.cluster import Cluster
from ottla.broker.loop.loop_share import Steps, awaited
from ottla.broker.options import NodeOptions
from ottla.broker.requests.gather_responses import NowOrLater, then
from ottla.broker.security.quotas import USED_UP, Permit, unlimited
from ottla.core.catalog import (
    INTERNAL_TOPICS,
    MAX_PARTITIONS_PER_REQUEST,
    Catalog,
    Changes,
    NewTopic,
    Topic,
    changed_topic,
    check_name,
    collision,
    folded_name,
)
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.events import EventLog
from ottla.ports import PartitionRef

logger = EventLog(__name__)

# The most topics and partitions that one request may create, as in Kafka.
MAX_CREATED_PER_REQUEST = 10_000
# The number of topics in one change of the catalog.
TOPICS_PER_CHANGE = 250
NAMES_PER_STEP = 16


class MorePartitions(NamedTuple):
    """A topic and its new number of partitions; `assignments` are the replicas of the added ones."""

    name: str
    partition_count: int
    assignments: Sequence[Sequence[int]] | None


class Extended(NamedTuple):
    """A topic with more partitions, and the changes of the catalog for that."""

    name: str
    old_count: int
    new_count: int
    changes: Changes


class TopicToDelete(NamedTuple):
    """A topic that a client wants deleted, by its name or by its id."""

    name: str | None
    topic_id: uuid.UUID | None

    @property
    def unknown_error(self) -> ErrorCode:
        by_name = self.topic_id is None
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID


class DeletionRights(NamedTuple):
    """The topics that a client may see, and those that it may delete."""

    describable: Container[str]
    deletable: Container[str]


class Deletion(NamedTuple):
    """The outcome of deleting topics: each topic, or why it cannot be deleted.

    `failure` says why none was deleted after all; `removal` is a generator that removes their data.
    """

    outcomes: list[Topic | ErrorCode]
    failure: Refused | None
    removal: Generator[None, None, None] | None

    @property
    def topics(self) -> list[Topic]:
        return [one for one in self.outcomes if isinstance(one, Topic)]


class Topics:
    """The topics as one node changes them: its options have the defaults of new topics."""

    def __init__(self, cluster: Cluster, options: NodeOptions) -> None:
        self._cluster = cluster
        self._catalog = cluster.catalog
        self._options = options

    def find(self, name: str) -> Topic | Refused:
        """A topic that a client names."""
        topic = self._catalog.topics.get(name)
        if topic is not None:
            return topic
        unknown = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{name}'")
        return check_name(name) or unknown

    # Creating.

    def create_requested(
        self,
        wanted: Sequence[NewTopic],
        invalid: Mapping[str, Refused],
        validate_only: bool,
        permit: Permit = unlimited,
    ) -> Steps[dict[str, Topic | Refused]]:
        """Creates the topics of a client's request, or only says what would be created; by name.

        `invalid` are topics among them whose options or replicas the client did not state properly.
        """
        times = Counter(new.name for new in wanted)
        outcome: dict[str, Topic | Refused] = dict(invalid)
        if self._created_count(wanted) > MAX_CREATED_PER_REQUEST:
            text = f"one request makes at most {MAX_CREATED_PER_REQUEST} topics and partitions together"
            outcome = dict.fromkeys(times, Refused(ErrorCode.POLICY_VIOLATION, text))
        twice = Refused(ErrorCode.INVALID_REQUEST, "the topic is asked for twice")
        outcome |= {name: twice for name, count in times.items() if count > 1}
        creatable = [new for new in wanted if new.name not in outcome]
        for start in range(0, len(creatable), TOPICS_PER_CHANGE):
            yield None
            some = creatable[start : start + TOPICS_PER_CHANGE]
            made = (
                self._preview(some, permit)
                if validate_only
                else (yield from awaited(self.create(some, permit)))
            )
            outcome.update(zip((new.name for new in some), made, strict=True))
        return outcome

    def _created_count(self, wanted: Sequence[NewTopic]) -> int:
        """The number of topics and partitions that would be created."""
        count = len(wanted)
        for new in wanted:
            partitions = (
                new.partition_count
                if new.partition_count > 0
                else self._options.config.num_partitions
            )
            if (
                partitions <= MAX_PARTITIONS_PER_REQUEST
            ):  # or else the topic will be refused by itself
                count += len(new.assignments) or partitions
        return count

    def _preview(self, wanted: Sequence[NewTopic], permit: Permit) -> list[Topic | Refused]:
        """The topics that would be created; as in Kafka, the client's quota counts them."""
        counted = _PermitOnce(permit)
        decided = [self._decide_create(new, counted) for new in wanted]
        return [
            one if isinstance(one, Refused) else changed_topic(new.name, one)
            for new, one in zip(wanted, decided, strict=True)
        ]

    def create(
        self, wanted: Sequence[NewTopic], permit: Permit = unlimited
    ) -> NowOrLater[list[Topic | Refused]]:
        """Creates topics in one change of the catalog; names that differ only in '.' and '_' collide."""
        counted = _PermitOnce(permit)
        made: list[Topic | Refused] = []

        def decide() -> Decision[None]:
            made.clear()
            all_changes: Changes = {}
            taken: dict[str, str] = {}
            for new in wanted:
                other = taken.get(folded_name(new.name))
                changes = (
                    self._decide_create(new, counted)
                    if other is None
                    else collision(new.name, other)
                )
                if isinstance(changes, Refused):
                    made.append(changes)
                    continue
                taken[folded_name(new.name)] = new.name
                all_changes |= changes
                made.append(changed_topic(new.name, changes))
            return Decision(all_changes, None)

        def created(failed: Refused | None) -> list[Topic | Refused]:
            if failed is not None:
                return [one if isinstance(one, Refused) else failed for one in made]
            for one in made:
                if isinstance(one, Topic):
                    logger.info(
                        "topic_created",
                        "topic %(topic)s created with %(partitions)d partition(s)",
                        topic=one.name,
                        partitions=one.partition_count,
                    )
            return made

        return then(self._cluster.change(decide), created)

    def _decide_create(self, new: NewTopic, permit: _PermitOnce) -> Changes | Refused:
        refused = self._catalog.check_new_name(new.name) or self._options.check_topic_config(
            new.config
        )
        if refused is not None:
            return refused
        changes = self._catalog.create(
            new,
            self._cluster.ids.topic_id(),
            self._cluster.placeable,
            self._options.config.num_partitions,
            self._options.config.default_replication_factor,
        )
        if isinstance(changes, Refused) or permit.is_unlimited:
            return changes
        return permit(new.name, changed_topic(new.name, changes).partition_count) or changes

    def create_on_first_use(
        self, names: Iterable[str], max_created: int, permit: Permit = unlimited
    ) -> Steps[dict[str, Refused]]:
        """Creates the topics among these that do not exist, if auto.create.topics.enable; says which it could not.

        At most `max_created` are created: the client asks again for the others.
        """
        refused: dict[str, Refused] = {}
        if not self._options.config.auto_create_topics_enable:
            return refused
        text = f"one request makes at most {max_created} topics: try again"
        postponed = Refused(ErrorCode.LEADER_NOT_AVAILABLE, text)
        later = Refused(ErrorCode.LEADER_NOT_AVAILABLE, USED_UP.message)
        wanted: list[NewTopic] = []
        for number, name in enumerate(names):
            if not number % NAMES_PER_STEP:
                yield None
            # The coordinators create internal topics, with options of their own.
            if name in self._catalog.topics or name in INTERNAL_TOPICS:
                continue
            reason = postponed if len(wanted) == max_created else self._catalog.check_new_name(name)
            if reason is None:
                wanted.append(NewTopic(name, -1, -1, {}, {}))
            else:
                refused[name] = reason
        # Another request may have created one of them between the steps.
        wanted = [new for new in wanted if new.name not in self._catalog.topics]
        if not wanted:
            return refused
        made = yield from awaited(self.create(wanted, permit))
        for new, one in zip(wanted, made, strict=True):
            # Another node may have created it meanwhile.
            if isinstance(one, Refused) and one.error is not ErrorCode.TOPIC_ALREADY_EXISTS:
                used_up = one.error is ErrorCode.THROTTLING_QUOTA_EXCEEDED
                refused[new.name] = later if used_up else one
        return refused

    def add_partitions(
        self,
        wanted: Sequence[MorePartitions],
        validate_only: bool,
        denied: Container[str],
        permit: Permit = unlimited,
    ) -> NowOrLater[list[Refused | None]]:
        """Gives topics more partitions in one change of the catalog, or only says whether that could be done.

        `denied` are topics among them that the client may not alter.
        """
        times = Counter(more.name for more in wanted)
        twice = Refused(ErrorCode.INVALID_REQUEST, "the topic is asked for twice")
        unauthorized = Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        counted = _PermitOnce(permit)
        decided: list[Extended | Refused] = []

        def decide() -> Decision[None]:
            decided.clear()
            all_changes: Changes = {}
            for more in wanted:
                if times[more.name] > 1:
                    decided.append(twice)
                elif more.name in denied:
                    decided.append(unauthorized)
                else:
                    extended = self._decide_add(more, counted)
                    decided.append(extended)
                    if isinstance(extended, Extended):
                        all_changes.update(extended.changes)
            return Decision({} if validate_only else all_changes, None)

        def added(failed: Refused | None) -> list[Refused | None]:
            if failed is None and not validate_only:
                _log_extended([one for one in decided if isinstance(one, Extended)])
            return [one if isinstance(one, Refused) else failed for one in decided]

        return then(self._cluster.change(decide), added)

    def _decide_add(self, more: MorePartitions, permit: _PermitOnce) -> Extended | Refused:
        changes = self._catalog.add_partitions(
            more.name, more.partition_count, more.assignments, self._cluster.placeable
        )
        if isinstance(changes, Refused):
            return changes
        before = self._catalog.topics[more.name].partition_count
        refused = permit(more.name, more.partition_count - before)
        return refused or Extended(more.name, before, more.partition_count, changes)

    # Deleting.

    def delete_requested(
        self,
        wanted: Sequence[TopicToDelete],
        rights: DeletionRights,
        permit: Permit = unlimited,
    ) -> NowOrLater[Deletion]:
        """Deletes the topics that a client names, each by its name or by its id, and may delete."""
        times = Counter(wanted)
        counted = _PermitOnce(permit)
        outcomes: list[Topic | ErrorCode] = []
        topics: dict[uuid.UUID, Topic] = {}

        def decide() -> Decision[None]:
            outcomes.clear()
            topics.clear()
            for asked in wanted:
                topic = (
                    ErrorCode.INVALID_REQUEST
                    if times[asked] > 1
                    else self._find_to_delete(asked, rights)
                )
                if isinstance(topic, Topic):
                    if topic.topic_id in topics:  # named both by its name and by its id
                        topic = asked.unknown_error
                    else:
                        refused = counted(topic.name, topic.partition_count)
                        if refused is not None:
                            topic = refused.error
                        else:
                            topics[topic.topic_id] = topic
                outcomes.append(topic)
            return Decision(self._deletion_of(topics.values()), None)

        def deleted(failed: Refused | None) -> Deletion:
            if failed is not None or not topics:
                return Deletion(outcomes, failed, None)
            return Deletion(outcomes, None, self._deleted(topics.values()))

        return then(self._cluster.change(decide), deleted)

    def _find_to_delete(self, asked: TopicToDelete, rights: DeletionRights) -> Topic | ErrorCode:
        if not self._options.config.delete_topic_enable:
            return ErrorCode.TOPIC_DELETION_DISABLED
        if (asked.name is None) == (asked.topic_id is None):
            return ErrorCode.INVALID_REQUEST
        if asked.topic_id is not None:
            topic = self._catalog.topics_by_id.get(asked.topic_id)
        else:
            name = asked.name or ""
            if name not in rights.describable:  # whether or not there is such a topic
                return ErrorCode.TOPIC_AUTHORIZATION_FAILED
            topic = self._catalog.topics.get(name)
        if topic is None:
            return asked.unknown_error
        return topic if topic.name in rights.deletable else ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def _deletion_of(self, topics: Iterable[Topic]) -> Changes:
        now_ms = self._cluster.clock.now_ms()
        changes: Changes = {}
        for topic in topics:
            changes |= self._catalog.delete(topic, now_ms)
        return changes

    def _deleted(self, topics: Iterable[Topic]) -> Generator[None, None, None]:
        """The generator that removes the data of topics that were deleted from the catalog."""
        for topic in topics:
            logger.info("topic_deleted", "topic %(topic)s deleted", topic=topic.name)
        return self._cluster.deletion.remove_data()


class _PermitOnce:
    """A permit that counts each topic once, however often a change is decided."""

    def __init__(self, permit: Permit) -> None:
        self._permit = permit
        self._answers: dict[str, Refused | None] = {}

    @property
    def is_unlimited(self) -> bool:
        return self._permit is unlimited

    def __call__(self, topic: str, partition_count: int) -> Refused | None:
        if topic not in self._answers:
            self._answers[topic] = self._permit(partition_count)
        return self._answers[topic]


def _log_extended(extended: Iterable[Extended]) -> None:
    for each in extended:
        logger.info(
            "partitions_added",
            "topic %(topic)s: %(partitions)d partitions, where there were %(partitions_before)d",
            topic=each.name,
            partitions=each.new_count,
            partitions_before=each.old_count,
        )


def adopt_topics(cluster: Cluster) -> None:
    """Takes over the partitions of a folder without a catalog: Apache Kafka's, or ours that lost its journal."""
    if not cluster.store.catalog.entries():
        adopt_partitions(
            cluster.catalog, cluster.store.partitions(), cluster.clock.now_ms(), cluster.commit
        )


def adopt_partitions(
    catalog: Catalog,
    partitions: Sequence[PartitionRef],
    now_ms: int,
    commit: Callable[[Changes], object],
) -> None:
    """As `adopt_topics`, for a catalog without entries."""
    adopted = catalog.adopt(partitions, now_ms)
    for problem in adopted.problems:
        logger.error("topic_not_adopted", "not taken over: %(reason)s", reason=problem)
    if not adopted.changes:
        return
    commit(adopted.changes)
    for topic in adopted.topics:
        logger.warning(
            "topic_adopted",
            "took over topic %(topic)s with %(partitions)d partition(s): "
            "%(config)s until it is configured otherwise",
            topic=topic.name,
            partitions=topic.partition_count,
            config=", ".join(f"{name}={value}" for name, value in topic.config.items()),
        )


def config_changes(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Which options were set and which were removed, for the log."""
    made = [f"{name}={value}" for name, value in after.items() if before.get(name) != value]
    return ", ".join(made + [f"{name} removed" for name in before if name not in after])
