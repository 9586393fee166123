"""The rules: each looks at the facts and tells what needs attention. Pure; times are those of the snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ottla.client.admin_model.transactions import TransactionState
from ottla.console.attention.worries import AttentionFacts, Kind, Place, Severity, Worry, ranked
from ottla.console.cluster.snapshot import (
    GroupSnapshot,
    LogDirSnapshot,
    Part,
    TopicSnapshot,
    TransactionSnapshot,
    is_below_min_in_sync,
)
from ottla.console.groups.standing import WITHOUT_MEMBERS, is_stuck, readable_lag
from ottla.console.transactions.held import GroupPosition, HeldPartition, held_partition
from ottla.model import TopicPartition
from ottla.spark.sink.progress import pipeline_of_marker_group

# As long as producers' transactions may take by default: a transaction that is older holds readers up.
LONG_TRANSACTION_MS: Final = 60_000
# Then it is no slow transaction any more.
VERY_LONG_TRANSACTION_MS: Final = 5 * 60_000
# A group without members that nobody starts again for so long is left behind.
UNREAD_MS: Final = 60_000
# A lag that is worth a word, and by how much of itself it has to have grown in the time that is looked at.
GROWING_LAG: Final = 1_000
GROWING_FACTOR: Final = 1.5
GROWING_POINTS: Final = 30
REPEATED_REBALANCES: Final = 5
REBALANCES_MS: Final = 10 * 60_000
# The part of a disk that is free.
LITTLE_FREE: Final = 0.10
HARDLY_FREE: Final = 0.05
MAX_NAMES: Final = 3
# Only the groups that are furthest behind are looked at over time.
MAX_TRENDS: Final = 200


def all_worries(facts: AttentionFacts) -> list[Worry]:
    """All that needs attention."""
    return [worry for rule in RULES for worry in rule(facts)]


def worries_of(facts: AttentionFacts) -> list[Worry]:
    """What needs attention, the worst first; of many of one kind the largest, and how many others there are."""
    return ranked(all_worries(facts))


# Replicas


def offline_partitions(facts: AttentionFacts) -> Iterator[Worry]:
    """Partitions without a leader."""
    for topic in facts.snapshot.topics.values():
        if topic.offline_count:
            yield Worry(
                Kind.OFFLINE,
                Severity.BAD,
                f"{_partitions(topic.offline_count, topic)} of {topic.name} without a leader",
                "Nothing can be read from them or written to them until a broker with a replica comes back.",
                Place.TOPIC,
                topic.name,
                size=topic.offline_count,
            )


def below_min_in_sync(facts: AttentionFacts) -> Iterator[Worry]:
    """Partitions with too few replicas in sync for a write with acks=all."""
    for topic in facts.snapshot.topics.values():
        count = topic.below_min_in_sync_count
        if count:
            least = topic.settings and topic.settings.min_in_sync_replicas
            yield Worry(
                Kind.BELOW_MIN_IN_SYNC,
                Severity.BAD,
                f"{_partitions(count, topic)} of {topic.name} below min.insync.replicas",
                f"Writes with acks=all are refused: fewer than {least} replicas are in sync.",
                Place.TOPIC,
                topic.name,
                size=count,
            )


def too_few_replicas(facts: AttentionFacts) -> Iterator[Worry]:
    """Topics whose min.insync.replicas no partition can ever reach."""
    for topic in facts.snapshot.topics.values():
        least = topic.settings and topic.settings.min_in_sync_replicas
        if least and topic.partitions and least > topic.replication_factor:
            yield Worry(
                Kind.TOO_FEW_REPLICAS,
                Severity.WARN,
                f"{topic.name} has {_plural(topic.replication_factor, 'replica')} and min.insync.replicas={least}",
                "Ottla, and Kafka before 3.7, refuse writes with acks=all to it. Newer Kafka asks for no more "
                "replicas than there are.",
                Place.TOPIC,
                topic.name,
                size=least - topic.replication_factor,
            )


def under_replicated(facts: AttentionFacts) -> Iterator[Worry]:
    """Partitions with replicas that are not in sync; not again those that were told as worse."""
    for topic in facts.snapshot.topics.values():
        if not topic.under_replicated_count:
            continue
        least = (topic.settings and topic.settings.min_in_sync_replicas) or 0
        count = sum(
            each.is_under_replicated
            and each.leader_id is not None
            and not is_below_min_in_sync(each, least)
            for each in topic.partitions
        )
        if count:
            yield Worry(
                Kind.UNDER_REPLICATED,
                Severity.WARN,
                f"{_partitions(count, topic)} of {topic.name} under-replicated",
                "A replica is not in sync: if the leader fails now, fewer copies are left.",
                Place.TOPIC,
                topic.name,
                size=count,
            )


def away_brokers(facts: AttentionFacts) -> Iterator[Worry]:
    """Brokers that have replicas, and are not in the cluster."""
    snapshot = facts.snapshot
    missing: Counter[int] = Counter()
    for topic in snapshot.topics.values():
        if not (topic.under_replicated_count or topic.offline_count):
            continue
        for partition in topic.partitions:
            missing.update(each for each in partition.replicas if each not in snapshot.brokers)
    for broker, count in missing.items():
        yield Worry(
            Kind.BROKER_AWAY,
            Severity.BAD,
            f"Broker {broker} is not in the cluster",
            f"It has {_plural(count, 'replica')}, which do not follow their leaders until it is back.",
            Place.BROKERS,
            size=count,
        )


# Disks


def log_directories(facts: AttentionFacts) -> Iterator[Worry]:
    """Directories that brokers do not use any more, or that are nearly full."""
    for broker in facts.snapshot.brokers.values():
        for each in broker.log_dirs or ():
            if each.error is not None:
                yield Worry(
                    Kind.LOG_DIR_FAILED,
                    Severity.BAD,
                    f"Log directory {each.path} of broker {broker.id} failed",
                    f"The broker does not use it: {each.error}",
                    Place.BROKERS,
                )
            else:
                yield from _fullness(each, broker.id)


def _fullness(log_dir: LogDirSnapshot, broker_id: int) -> Iterator[Worry]:
    total, usable = log_dir.total_bytes, log_dir.usable_bytes
    if not total or usable is None or usable / total >= LITTLE_FREE:
        return
    share = usable / total
    yield Worry(
        Kind.LOG_DIR_FULL,
        Severity.BAD if share < HARDLY_FREE else Severity.WARN,
        f"Log directory {log_dir.path} of broker {broker_id} has {share:.1%} of its disk free",
        "A broker whose disk is full stops. Add space, or shorten retention.",
        Place.BROKERS,
        size=1 - share,
    )


# Transactions


def hanging_transactions(facts: AttentionFacts) -> Iterator[Worry]:
    """Transactions that no coordinator will end."""
    for each in facts.opened.hanging:
        standing = facts.standing_offsets.get(each.partition)
        held = held_partition(
            facts.snapshot,
            each.partition,
            each.producer.producer_id,
            facts.opened.by_partition.get(each.partition, ()),
            names=facts.opened.names,
            hanging_ids=(),
        )
        yield Worry(
            Kind.HANGING,
            Severity.BAD,
            f"A transaction of producer {each.producer.producer_id} hangs on {_name(each.partition)}",
            f"No coordinator will end it. {_what_waits([held])} Abort it.",
            Place.TRANSACTIONS,
            since_ms=None if standing is None else standing.since_ms,
            size=held.unseen_count,
        )


def long_transactions(facts: AttentionFacts) -> Iterator[Worry]:
    """Last stable offsets that an open transaction has held for long: who, and how long."""
    snapshot = facts.snapshot
    told: set[TopicPartition] = {each.partition for each in facts.opened.hanging}
    for each in snapshot.transactions.values():
        held = [part for part in _held_by(each, facts) if part.is_held]
        told.update(TopicPartition(part.topic, part.partition) for part in held)
        started = each.started_at_ms
        if not held or started is None or snapshot.at_ms - started < LONG_TRANSACTION_MS:
            continue
        yield Worry(
            Kind.HELD,
            _of_age(snapshot.at_ms - started),
            f"Transaction {each.transactional_id} has been open for long",
            f"{_what_waits(held)} {_how_it_ends(each)}",
            Place.TRANSACTION,
            each.transactional_id,
            since_ms=started,
            size=sum(part.freed_count for part in held),
        )
    for key, standing in facts.standing_offsets.items():
        # Whose transaction it is was not found, or is not for this user to know.
        age_ms = snapshot.at_ms - standing.since_ms
        if key in told or age_ms < LONG_TRANSACTION_MS or key.topic not in snapshot.topics:
            continue
        place = snapshot.partition(*key)
        if place is not None and place.unstable_count:
            yield Worry(
                Kind.HELD,
                _of_age(age_ms),
                f"The last stable offset of {_name(key)} stands",
                f"An open transaction holds back {_plural(place.unstable_count, 'offset')} from readers of "
                "committed records.",
                Place.TOPIC,
                key.topic,
                since_ms=standing.since_ms,
                size=place.unstable_count,
            )


def _how_it_ends(transaction: TransactionSnapshot) -> str:
    if transaction.state is TransactionState.ONGOING:
        return "It ends when its producer commits or aborts, or by its timeout."
    return "Its end is decided: the coordinator has yet to write the markers, and tries again until it can."


def _held_by(transaction: TransactionSnapshot, facts: AttentionFacts) -> Iterator[HeldPartition]:
    for key in transaction.partitions or ():
        if key in facts.opened.by_partition:
            yield held_partition(
                facts.snapshot,
                key,
                transaction.producer_id,
                facts.opened.by_partition[key],
                names=facts.opened.names,
                hanging_ids=(),
            )


def _what_waits(held: list[HeldPartition]) -> str:
    count = sum(each.unseen_count for each in held)
    waiting = {
        group.group_id
        for each in held
        for group in each.groups
        if group.position is GroupPosition.WAITING
    }
    where = _name(TopicPartition(held[0].topic, held[0].partition))
    if len(held) > 1:
        where += f" and {_plural(len(held) - 1, 'more partition')}"
    text = f"It holds back {_plural(count, 'offset')} of {where} from readers of committed records."
    return f"{text} {_waiting(sorted(waiting))} for it." if waiting else text


def _of_age(age_ms: int) -> Severity:
    return Severity.BAD if age_ms >= VERY_LONG_TRANSACTION_MS else Severity.WARN


# Groups


def standing_groups(facts: AttentionFacts) -> Iterator[Worry]:
    """Groups that have records to read and commit nothing: their members are stuck, or there are none."""
    snapshot = facts.snapshot
    for name, standing in facts.standing_groups.items():
        group = snapshot.groups.get(name)
        if group is None or holds_markers(group):
            continue
        has_stopped = is_stuck(group, standing, snapshot.at_ms)
        lag = readable_lag(group, snapshot, facts.read_topics.get(name) if has_stopped else None)
        if not lag:
            continue
        if has_stopped:
            yield Worry(
                Kind.STUCK_GROUP,
                Severity.BAD,
                f"Group {name} has members and commits nothing",
                f"{_plural(lag, 'record')} wait. A consumer may hang in its work, or fail before each commit.",
                Place.GROUP,
                name,
                since_ms=standing.since_ms,
                size=lag,
            )
        elif group.state in WITHOUT_MEMBERS and snapshot.at_ms - standing.since_ms >= UNREAD_MS:
            is_written = any(
                (snapshot.topics[topic].records_per_second or 0) > 0
                for topic in group.lags
                if topic in snapshot.topics
            )
            yield Worry(
                Kind.UNREAD,
                Severity.WARN if is_written else Severity.INFO,
                f"Group {name} has no members and a lag",
                f"{_plural(lag, 'record')} wait"
                + (" and more come in" if is_written else "")
                + ". Start its consumers, or delete the group if nobody needs it.",
                Place.GROUP,
                name,
                since_ms=standing.since_ms,
                size=lag,
            )


def holds_markers(group: GroupSnapshot) -> bool:
    """Whether it has the markers of a Spark pipeline instead of what is read."""
    return not group.protocol_type and pipeline_of_marker_group(group.group_id) is not None


def growing_lags(facts: AttentionFacts) -> Iterator[Worry]:
    """Groups that read, and do not keep up."""
    snapshot = facts.snapshot
    behind = [each for each in snapshot.groups.values() if (each.lag or 0) >= GROWING_LAG]
    behind.sort(key=lambda each: -(each.lag or 0))
    for group in behind[:MAX_TRENDS]:
        standing = facts.standing_groups.get(group.group_id)
        if group.state in WITHOUT_MEMBERS or is_stuck(group, standing, snapshot.at_ms):
            continue
        growth = lag_growth(facts.lag_of(group.group_id))
        if growth:
            yield Worry(
                Kind.GROWING_LAG,
                Severity.WARN,
                f"The lag of group {group.group_id} grows",
                f"{_plural(round(growth), 'record')} more than some minutes ago, {group.lag:,} in all: its "
                "consumers are slower than the producers.",
                Place.GROUP,
                group.group_id,
                size=growth,
            )


def lag_growth(lags: Sequence[float | None]) -> float:
    """By how much a lag has grown, from one third of the time to the next; 0 if it did not grow in both."""
    known = [each for each in lags if each is not None]
    if len(known) < GROWING_POINTS:
        return 0
    third = len(known) // 3
    first, middle, last = (
        sum(part) / len(part)
        for part in (known[:third], known[third : 2 * third], known[2 * third :])
    )
    grows = first < middle < last and last >= first * GROWING_FACTOR
    return last - first if grows and last - first >= GROWING_LAG else 0


def repeated_rebalances(facts: AttentionFacts) -> Iterator[Worry]:
    """Groups that are rebalanced again and again."""
    snapshot = facts.snapshot
    for name in snapshot.groups:
        recent = facts.rebalanced_since(name, snapshot.at_ms - REBALANCES_MS)
        if len(recent) >= REPEATED_REBALANCES:
            yield Worry(
                Kind.REBALANCING,
                Severity.WARN,
                f"Group {name} was rebalanced {len(recent)} times in {REBALANCES_MS // 60_000} minutes",
                "Consumers stop reading meanwhile. They may exceed max.poll.interval.ms, or be restarted.",
                Place.GROUP,
                name,
                since_ms=min(recent),
                size=len(recent),
            )


# Letters, and what is not known


def dead_letters(facts: AttentionFacts) -> Iterator[Worry]:
    """Letters that nobody has dealt with."""
    for topic, counts in facts.letters.items():
        if not counts.open or topic not in facts.snapshot.topics:
            continue
        more = "" if counts.is_whole else " or more"
        error = counts.errors[0].error if counts.errors else None
        reason = "" if error is None else f" Most often: {error}."
        yield Worry(
            Kind.DEAD_LETTERS,
            Severity.WARN,
            f"{counts.open:,}{more} open {'letter' if counts.open == 1 else 'letters'} in {topic}",
            f"An app has given up on these records.{reason} Replay them, or drop them.",
            Place.APPS,
            topic,
            since_ms=counts.oldest_ms,
            size=counts.open,
        )


def parts_not_told(facts: AttentionFacts) -> Iterator[Worry]:
    """Parts that the cluster refuses, lacks or fails to tell: what is shown of them is old or missing."""
    told = facts.snapshot.told_at_ms
    for each in facts.snapshot.part_problems:
        yield Worry(
            Kind.NOT_TOLD,
            Severity.INFO,
            f"The cluster does not tell {'all ' if each.part in told else ''}{_PARTS[each.part]}",
            each.message,
            Place.NONE,
            since_ms=each.since_ms,
        )
    if facts.internals_problem is not None:
        yield Worry(
            Kind.NOT_TOLD,
            Severity.INFO,
            "The broker does not tell its internals",
            facts.internals_problem,
            Place.NONE,
        )


_PARTS: Final = {
    Part.BROKERS: "its brokers",
    Part.TOPICS: "its topics",
    Part.END_OFFSETS: "ends of partitions",
    Part.STABLE_OFFSETS: "last stable offsets",
    Part.START_OFFSETS: "first offsets of partitions",
    Part.LOG_DIRS: "log directories",
    Part.TOPIC_CONFIGS: "configs of topics",
    Part.GROUPS: "groups",
    Part.COMMITTED_OFFSETS: "committed offsets",
    Part.OPEN_TRANSACTIONS: "open transactions",
    Part.TRANSACTIONAL_IDS: "transactional ids",
}

RULES: Final[tuple[Callable[[AttentionFacts], Iterator[Worry]], ...]] = (
    offline_partitions,
    below_min_in_sync,
    too_few_replicas,
    under_replicated,
    away_brokers,
    log_directories,
    hanging_transactions,
    long_transactions,
    standing_groups,
    growing_lags,
    repeated_rebalances,
    dead_letters,
    parts_not_told,
)


def _partitions(count: int, topic: TopicSnapshot) -> str:
    total = len(topic.partitions)
    return (
        f"{_plural(count, 'partition')}" if count == total else f"{count:,} of {total:,} partitions"
    )


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word if count == 1 else word + 's'}"


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _waiting(names: list[str]) -> str:
    if len(names) == 1:
        return f"Group {names[0]} waits"
    more = len(names) - MAX_NAMES
    rest = f" and {more} more" if more > 0 else ""
    return f"Groups {', '.join(names[:MAX_NAMES])}{rest} wait"
