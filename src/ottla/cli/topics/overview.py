"""`ottla topics list` and `describe`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of
from ottla.cli.errors import CommandError, UsageError, attempt, print_errors
from ottla.cli.exit_codes import DONE
from ottla.cli.terminal.output import Output, columns, repeat, say
from ottla.cli.topics.selection import choose_topics, no_such_topics
from ottla.client.admin_model.configs import ConfigResource
from ottla.client.admin_model.topics import PartitionReassignment, TopicPartitionInfo
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition, parse_topic_id, topic_id_text

if TYPE_CHECKING:
    from uuid import UUID

    from ottla.client.admin_model.configs import ConfigEntry
    from ottla.client.admin_model.topics import TopicDescription
    from ottla.client.blocking.admin import Admin
    from ottla.client.model import Node

LISTED: Final = columns(name="NAME", partitions="PARTITIONS", replicas="REPLICAS")

_MIN_IN_SYNC: Final = "min.insync.replicas"
_OTTLAS_OPTIONS: Final = "ottla."
_WITHOUT_REASSIGNMENTS: Final = (
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)


def list_topics(arguments: Arguments) -> int:
    """List the topics with their numbers of partitions and replicas."""
    output = Output(arguments.form)
    with admin_of(arguments) as admin:

        def show() -> int:
            code = DONE
            names, missing = selected_topics(admin, arguments)
            if arguments.names:
                output.lines(names) if output.is_table else output.data(names)
            else:
                described, errors = describe_each(admin, names)
                output.rows(LISTED, [listing_row(topic) for topic in described])
                code = print_errors(errors)
            if not names and output.is_table:
                say(f"no topic matches {', '.join(missing)}" if missing else "there are no topics")
            return code

        return repeat(arguments.watch, show)


def listing_row(topic: TopicDescription) -> dict[str, Any]:
    """The row of a topic in the list."""
    return {
        "name": topic.name,
        "topic_id": id_text(topic.topic_id),
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replicas": min((len(p.replicas) for p in topic.partitions), default=0),
    }


def id_text(topic_id: UUID | None) -> str | None:
    """A topic id as Kafka's tools write it."""
    return None if topic_id is None else topic_id_text(topic_id)


def selected_topics(admin: Admin, arguments: Arguments) -> tuple[list[str], list[str]]:
    """The sorted names of the topics that the arguments select, and the words that select none."""
    names = admin.list_topics(list_internal=not arguments.exclude_internal)
    return choose_topics(arguments.topics, names) if arguments.topics else (sorted(names), [])


def describe_each(
    admin: Admin, topics: Iterable[str]
) -> tuple[list[TopicDescription], list[KafkaError]]:
    """The descriptions of topics, and the errors of the others, one of which may have just been deleted."""
    wanted = list(topics)
    found, errors = attempt(wanted, lambda: admin.describe_topics(wanted))
    return [*found.values()], [*errors.values()]


# describe


def describe(arguments: Arguments) -> int:
    """Show topics and their partitions."""
    output = Output(arguments.form)
    with admin_of(arguments) as admin:

        def show() -> int:
            described, errors = describe_each(admin, _wanted(admin, arguments))
            found = _found(admin, described, arguments.only)
            if output.is_table:
                for topic in found:
                    output.lines(lines_of(topic, arguments.only))
                if not found:
                    say(_NOTHING[arguments.only])
                if any((topic["replication_factor"] or 0) > 1 for topic in found):
                    _say_what_replicas_are(admin)
            else:
                output.data(found)
            return print_errors(errors)

        return repeat(arguments.watch, show)


def _say_what_replicas_are(admin: Admin) -> None:
    """Says that the replicas of this broker are no copies, if it is Ottla."""
    # Older versions of Kafka, and ACLs, may keep the configs of brokers from this client.
    with suppress(KafkaError):
        cluster = admin.describe_cluster()
        resource = ConfigResource.broker(cluster.nodes[0].id)
        if any(
            name.startswith(_OTTLAS_OPTIONS)
            for name in admin.describe_configs([resource])[resource]
        ):
            say(
                "replicas are one copy: the nodes of this broker keep their data on one machine, each partition once"
            )


def _wanted(admin: Admin, arguments: Arguments) -> list[str]:
    if arguments.topic_ids and arguments.topics:
        raise UsageError("--topic-id and names of topics do not go together")
    if arguments.topic_ids:
        return _with_ids(admin, arguments.topic_ids)
    names, missing = selected_topics(admin, arguments)
    if missing and not arguments.if_exists:
        raise no_such_topics(admin, missing)
    return names


def _with_ids(admin: Admin, texts: Iterable[str]) -> list[str]:
    try:
        ids = [parse_topic_id(text) for text in texts]
    except ValueError as error:
        raise UsageError(str(error)) from None
    names = {topic.topic_id: name for name, topic in admin.list_topics(list_internal=True).items()}
    for topic_id in ids:
        if topic_id not in names:
            raise CommandError(f"no topic has the id {topic_id_text(topic_id)}")
    return [names[topic_id] for topic_id in ids]


def _found(admin: Admin, topics: list[TopicDescription], only: str | None) -> list[dict[str, Any]]:
    """Everything that is shown, as data."""
    if not topics:
        return []
    resources = [ConfigResource.topic(topic.name) for topic in topics]
    configs = admin.describe_configs(resources)
    moves = _moves(admin, topics)
    alive = {node.id for node in admin.describe_cluster().nodes}
    found = []
    for topic, resource in zip(topics, resources, strict=True):
        entry = _described(topic, configs[resource], moves)
        wants = _ONLY.get(only or "")
        if only == "topics-with-overrides":
            del entry["partitions"]
            if entry["configs"]:
                found.append(entry)
        elif wants is None:
            found.append(entry)
        else:
            least = int((configs[resource][_MIN_IN_SYNC].value) or 1)
            entry["partitions"] = [p for p in entry["partitions"] if wants(p, least, alive)]
            if entry["partitions"]:
                found.append(entry)
    return found


_NOTHING: Final = {
    None: "there are no topics",
    "topics-with-overrides": "no topic has configs of its own",
    "under-replicated-partitions": "no partition is under-replicated",
    "unavailable-partitions": "every partition has a leader",
    "under-min-isr-partitions": "no partition has fewer in-sync replicas than it needs",
    "at-min-isr-partitions": "no partition has just as many in-sync replicas as it needs",
}

# Which partitions to show, given the partition, min.insync.replicas and the live brokers.
_ONLY: Final[Mapping[str, Callable[[Mapping[str, Any], int, set[int]], bool]]] = {
    "under-replicated-partitions": lambda partition, least, alive: (
        len(partition["isr"]) < _settled_replicas(partition)
    ),
    "unavailable-partitions": lambda partition, least, alive: partition["leader"] not in alive,
    "under-min-isr-partitions": lambda partition, least, alive: (
        partition["leader"] is None or len(partition["isr"]) < least
    ),
    "at-min-isr-partitions": lambda partition, least, alive: len(partition["isr"]) == least,
}


def _settled_replicas(partition: Mapping[str, Any]) -> int:
    """The number of replicas without those that a reassignment adds."""
    return len(partition["replicas"]) - len(partition.get("adding_replicas", ()))


def _moves(
    admin: Admin, topics: Iterable[TopicDescription]
) -> Mapping[TopicPartition, PartitionReassignment]:
    partitions = [(topic.name, p.partition) for topic in topics for p in topic.partitions]
    try:
        return admin.list_partition_reassignments(partitions)
    except KafkaError as error:
        if error.code in _WITHOUT_REASSIGNMENTS:
            return {}
        raise


def _described(
    topic: TopicDescription,
    configs: Mapping[str, ConfigEntry],
    moves: Mapping[TopicPartition, PartitionReassignment],
) -> dict[str, Any]:
    partitions = [
        _partition(p, moves.get(TopicPartition(topic.name, p.partition))) for p in topic.partitions
    ]
    return {
        "name": topic.name,
        "topic_id": id_text(topic.topic_id),
        "internal": topic.is_internal,
        "partition_count": len(partitions),
        "replication_factor": _settled_replicas(partitions[0]) if partitions else None,
        "configs": {entry.name: entry.value for entry in configs.values() if not entry.is_default},
        "partitions": partitions,
    }


def _partition(partition: TopicPartitionInfo, move: PartitionReassignment | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "partition": partition.partition,
        "leader": None if partition.leader is None else partition.leader.id,
        "leader_epoch": partition.leader_epoch,
        "replicas": _ids(partition.replicas),
        "isr": _ids(partition.in_sync_replicas),
        "offline_replicas": _ids(partition.offline_replicas),
        "elr": _ids_or_none(partition.eligible_leader_replicas),
        "last_known_elr": _ids_or_none(partition.last_known_eligible_leader_replicas),
    }
    if move is not None:
        found["adding_replicas"] = list(move.adding_replicas)
        found["removing_replicas"] = list(move.removing_replicas)
    return found


def _ids(nodes: Iterable[Node]) -> list[int]:
    return [node.id for node in nodes]


def _ids_or_none(nodes: Iterable[Node] | None) -> list[int] | None:
    return None if nodes is None else _ids(nodes)


def lines_of(topic: Mapping[str, Any], only: str | None) -> list[str]:
    """A topic and its partitions in the format of kafka-topics, with tabs, which scripts parse."""
    lines = []
    if only is None or only == "topics-with-overrides":
        parts = [f"Topic: {topic['name']}"]
        if topic["topic_id"] is not None:
            parts.append(f"TopicId: {topic['topic_id']}")
        parts += [
            f"PartitionCount: {topic['partition_count']}",
            f"ReplicationFactor: {topic['replication_factor']}",
            "Configs: " + ",".join(f"{key}={value}" for key, value in topic["configs"].items()),
        ]
        lines.append("\t".join(parts))
    lines += [_partition_line(topic["name"], p) for p in topic.get("partitions", ())]
    return lines


def _partition_line(name: str, partition: Mapping[str, Any]) -> str:
    leader = partition["leader"]
    parts = [
        "",
        f"Topic: {name}",
        f"Partition: {partition['partition']}",
        f"Leader: {'none' if leader is None else leader}",
        f"Replicas: {_listed(partition['replicas'])}",
        f"Isr: {_listed(partition['isr'])}",
    ]
    if "adding_replicas" in partition:
        parts.append(f"Adding Replicas: {_listed(partition['adding_replicas'])}")
        parts.append(f"Removing Replicas: {_listed(partition['removing_replicas'])}")
    parts.append(f"Elr: {_listed(partition['elr'])}")
    parts.append(f"LastKnownElr: {_listed(partition['last_known_elr'])}")
    return "\t".join(parts)


def _listed(ids: Iterable[int] | None) -> str:
    return "N/A" if ids is None else ",".join(map(str, ids))
