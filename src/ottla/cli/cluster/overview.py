"""`ottla cluster`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of
from ottla.cli.errors import CommandError, attempt, print_errors
from ottla.cli.exit_codes import DONE
from ottla.cli.terminal.output import Output, columns, repeat, say
from ottla.cli.topics.selection import choose_topics, no_such_topics
from ottla.client.api_names import api_key, known_versions
from ottla.client.existing_topics import describe_existing_topics
from ottla.model import topic_id_text

if TYPE_CHECKING:
    from ottla.client.admin_model.cluster import ClusterDescription, LogDirDescription, QuorumInfo
    from ottla.client.blocking.admin import Admin

BROKERS: Final = columns(
    id="ID", host="HOST", port="PORT", rack="RACK", controller="CONTROLLER", fenced="FENCED"
)
VERSIONS: Final = columns(
    broker="BROKER",
    api="API",
    api_key="KEY",
    min_version="MIN",
    max_version="MAX",
    usable_version="USABLE",
)
LOG_DIRS: Final = columns(
    broker="BROKER",
    log_dir="LOG-DIR",
    topic="TOPIC",
    partition="PARTITION",
    size_bytes="SIZE",
    offset_lag="OFFSET-LAG",
    future="FUTURE",
)
FEATURES: Final = columns(
    feature="FEATURE",
    supported_min_version="SUPPORTED-MIN",
    supported_max_version="SUPPORTED-MAX",
    finalized_version_level="FINALIZED",
    epoch="EPOCH",
)

QUORUM: Final = columns(
    node="NODE",
    status="STATUS",
    leader_epoch="LEADER-EPOCH",
    log_end_offset="LOG-END-OFFSET",
    lag="LAG",
    last_caught_up_timestamp_ms="LAST-CAUGHT-UP-TIMESTAMP",
    endpoints="ENDPOINTS",
)


def describe(arguments: Arguments) -> int:
    """Show an overview of the cluster."""
    output = Output(arguments.form)
    with admin_of(arguments) as admin:

        def show() -> int:
            found = _overview(admin)
            if not output.is_table:
                output.data(found)
                return DONE
            width = max(map(len, found))
            output.lines(
                f"{key.replace('_', ' '):<{width}}  {'none' if value is None else value}"
                for key, value in found.items()
            )
            return DONE

        return repeat(arguments.watch, show)


def _overview(admin: Admin) -> dict[str, Any]:
    cluster = admin.describe_cluster()
    topics = describe_existing_topics(admin, admin.list_topics(list_internal=True))
    partitions = [each for topic in topics.values() for each in topic.partitions]
    return {
        "cluster_id": cluster.cluster_id,
        "controller": None if cluster.controller is None else cluster.controller.id,
        "brokers": len(cluster.nodes),
        "topics": sum(not topic.is_internal for topic in topics.values()),
        "internal_topics": sum(topic.is_internal for topic in topics.values()),
        "partitions": len(partitions),
        "replicas": sum(len(each.replicas) for each in partitions),
        "under_replicated_partitions": sum(
            len(each.in_sync_replicas) < len(each.replicas) for each in partitions
        ),
        "unavailable_partitions": sum(each.leader is None for each in partitions),
    }


def brokers(arguments: Arguments) -> int:
    """List the brokers, with the controller marked."""
    output = Output(arguments.form)
    with admin_of(arguments) as admin:

        def show() -> int:
            cluster = admin.describe_cluster(
                include_fenced_brokers=arguments.include_fenced_brokers
            )
            output.rows(BROKERS, broker_rows(cluster))
            return DONE

        return repeat(arguments.watch, show)


def broker_rows(cluster: ClusterDescription) -> list[dict[str, Any]]:
    """The rows of brokers by id."""
    return [
        {
            "id": node.id,
            "host": node.host,
            "port": node.port,
            "rack": node.rack,
            "controller": node == cluster.controller,
            "fenced": node.id in cluster.fenced_node_ids,
        }
        for node in sorted(cluster.nodes, key=lambda node: node.id)
    ]


def _asked_brokers(admin: Admin, asked: list[int] | None) -> list[int]:
    """The ids of the brokers that are asked for, all of which must exist."""
    present = sorted(node.id for node in admin.describe_cluster().nodes)
    if asked is None:
        return present
    missing = [broker for broker in asked if broker not in present]
    if missing:
        raise CommandError(
            f"there is no broker {', '.join(map(str, missing))}",
            "`ottla cluster brokers` shows which there are",
        )
    return asked


# Versions and features


def api_versions(arguments: Arguments) -> int:
    """List the APIs and versions that the brokers support."""
    output = Output(arguments.form)
    with admin_of(arguments) as admin:
        asked = _asked_brokers(admin, arguments.broker_list)
        found, errors = attempt(asked, lambda: admin.describe_api_versions(asked))
    output.rows(VERSIONS, [row for broker, apis in found.items() for row in _apis(broker, apis)])
    return print_errors(errors.values())


def _apis(broker: int, apis: Mapping[str, tuple[int, int]]) -> list[dict[str, Any]]:
    ours = known_versions()
    rows = [
        {
            "broker": broker,
            "api": name,
            "api_key": api_key(name),
            "min_version": least,
            "max_version": most,
            "usable_version": usable(least, most, ours.get(api_key(name))),
        }
        for name, (least, most) in apis.items()
    ]
    return sorted(rows, key=lambda row: int(row["api_key"] or 0))


def usable(least: int, most: int, ours: tuple[int, int] | None) -> int | None:
    """The newest version that broker and client know; None if there is none, or this client does not use the API."""
    if ours is None or min(most, ours[1]) < max(least, ours[0]):
        return None
    return min(most, ours[1])


def features(arguments: Arguments) -> int:
    """List the features of the cluster (KIP-584)."""
    output = Output(arguments.form)
    with admin_of(arguments) as admin:
        found = admin.describe_features()
    rows = []
    for name in sorted({*found.supported_features, *found.finalized_features}):
        supported = found.supported_features.get(name)
        finalized = found.finalized_features.get(name)
        rows.append(
            {
                "feature": name,
                "supported_min_version": None if supported is None else supported.min_version,
                "supported_max_version": None if supported is None else supported.max_version,
                "finalized_version_level": None if finalized is None else finalized.max_version,
                "epoch": found.finalized_features_epoch,
            }
        )
    if not rows and output.is_table:
        say("the brokers report no features")
    output.rows(FEATURES, rows)
    return DONE


def quorum(arguments: Arguments) -> int:
    """List the controllers, and the brokers that read the metadata log."""
    output = Output(arguments.form)
    with admin_of(arguments) as admin:

        def show() -> int:
            output.rows(QUORUM, quorum_rows(admin.describe_metadata_quorum()))
            return DONE

        return repeat(arguments.watch, show)


def quorum_rows(quorum: QuorumInfo) -> list[dict[str, Any]]:
    """The leader first; the lag of each is behind it."""
    roles = dict.fromkeys(quorum.voters, "Follower") | dict.fromkeys(quorum.observers, "Observer")
    end = max((each.log_end_offset for each in quorum.voters), default=0)
    rows = [
        {
            "node": each.replica_id,
            "status": "Leader" if each.replica_id == quorum.leader_id else role,
            "leader_epoch": quorum.leader_epoch,
            "log_end_offset": each.log_end_offset,
            "lag": max(0, end - each.log_end_offset),
            "directory_id": each.replica_directory_id and topic_id_text(each.replica_directory_id),
            "last_fetch_timestamp_ms": each.last_fetch_timestamp_ms,
            "last_caught_up_timestamp_ms": each.last_caught_up_timestamp_ms,
            "endpoints": list(quorum.endpoints.get(each.replica_id, ())),
        }
        for each, role in roles.items()
    ]
    return sorted(rows, key=lambda row: row["status"] != "Leader")


# Disks


def log_dirs(arguments: Arguments) -> int:
    """List the log directories of brokers, and the partitions in each."""
    output = Output(arguments.form)
    with admin_of(arguments) as admin:

        def show() -> int:
            asked = _asked_brokers(admin, arguments.broker_list)
            topics = _asked_topics(admin, arguments.topics)
            found, errors = attempt(asked, lambda: admin.describe_log_dirs(asked))
            if output.is_table:
                output.rows(LOG_DIRS, log_dir_rows(found, topics))
            else:
                output.data(log_dir_data(found, topics))
            failed = (each.error for dirs in found.values() for each in dirs.values() if each.error)
            return print_errors([*errors.values(), *failed])

        return repeat(arguments.watch, show)


def _asked_topics(admin: Admin, words: list[str] | None) -> set[str] | None:
    if not words:
        return None
    chosen, missing = choose_topics(words, admin.list_topics(list_internal=True))
    if missing:
        raise no_such_topics(admin, missing)
    return set(chosen)


LogDirs = Mapping[int, Mapping[str, "LogDirDescription"]]


def log_dir_data(found: LogDirs, topics: set[str] | None) -> dict[str, Any]:
    """The data of kafka-log-dirs, with our key names."""
    return {
        "version": 1,
        "brokers": [
            {
                "broker": broker,
                "log_dirs": [
                    {
                        "log_dir": log_dir,
                        "error": None if each.error is None else each.error.name,
                        "total_bytes": each.total_bytes,
                        "usable_bytes": each.usable_bytes,
                        "partitions": _replicas(each, topics),
                    }
                    for log_dir, each in dirs.items()
                ],
            }
            for broker, dirs in found.items()
        ],
    }


def _replicas(log_dir: LogDirDescription, topics: set[str] | None) -> list[dict[str, Any]]:
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "size_bytes": replica.size_bytes,
            "offset_lag": replica.offset_lag,
            "future": replica.is_future,
        }
        for partition, replica in sorted(log_dir.replicas.items())
        if topics is None or partition.topic in topics
    ]


def log_dir_rows(found: LogDirs, topics: set[str] | None) -> list[dict[str, Any]]:
    """A row for each partition, and one for a directory without any."""
    empty: Iterable[dict[str, Any]] = ({},)
    return [
        {"broker": broker, "log_dir": log_dir, **row}
        for broker, dirs in found.items()
        for log_dir, each in dirs.items()
        for row in _replicas(each, topics) or empty
    ]
