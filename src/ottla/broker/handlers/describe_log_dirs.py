"""DescribeLogDirs: the folders and the sizes of partitions."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import MAX_ELEMENTS_IN_SLICES, serve
from ottla.broker.requests.request import Reply, RequestContext
from ottla.broker.security.authorization import refuse_cluster
from ottla.errors import ErrorCode
from ottla.ports import LogDir
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

PARTITIONS_PER_STEP = 16


def handle(
    node: Node, request: DescribeLogDirsRequest, context: RequestContext
) -> Reply[DescribeLogDirsResponse]:
    refused = refuse_cluster(node, context.caller, Operation.DESCRIBE)
    if refused is not None:
        return DescribeLogDirsResponse(error_code=refused.error, results=[])
    return node.cluster.share.answer(_respond(node, request))


def _respond(
    node: Node, request: DescribeLogDirsRequest
) -> Generator[None, None, DescribeLogDirsResponse]:
    wanted = None
    if request.topics is not None:
        wanted = {
            (asked.topic, partition) for asked in request.topics for partition in asked.partitions
        }
    log_dirs = []
    for log_dir in node.cluster.store.log_dirs():
        log_dirs.append((yield from _here(node, log_dir)))
    unused = yield from _unused_partitions(node, log_dirs)
    offline = node.partitions.offline_partitions()
    results = []
    for log_dir in log_dirs:
        sizes = {key: size for key, size in log_dir.partitions.items() if key not in offline}
        # The engine makes a log when it is first used; to clients it exists since the topic does.
        sizes.update((key, 0) for key in unused)
        unused = []
        # Kafka can only say that a whole folder is offline; so is that of such a partition.
        results += [
            DescribeLogDirsResult(
                error_code=ErrorCode.KAFKA_STORAGE_ERROR,
                log_dir=f"{log_dir.path}/{topic}-{partition}",
                topics=[],
            )
            for topic, partition in sorted(offline)
            if (topic, partition) in log_dir.partitions
        ]
        results.append(
            DescribeLogDirsResult(
                error_code=ErrorCode.NONE,
                log_dir=log_dir.path,
                topics=(yield from _topics(sizes, wanted)),
                total_bytes=log_dir.total_bytes,
                usable_bytes=log_dir.usable_bytes,
            )
        )
    return DescribeLogDirsResponse(results=results)


def _here(node: Node, log_dir: LogDir) -> Generator[None, None, LogDir]:
    """A log directory that all nodes share, with only the partitions of which this node is a replica."""
    cluster = node.cluster
    if len(cluster.members.here) == 1:
        return log_dir
    here = {}
    for number, ((name, partition), size_bytes) in enumerate(log_dir.partitions.items()):
        if not number % PARTITIONS_PER_STEP:
            yield
        topic = cluster.catalog.topics.get(name)
        if topic is None or cluster.has_replica(node.node_id, topic, partition):
            here[name, partition] = size_bytes
    return log_dir._replace(partitions=here)


def _unused_partitions(
    node: Node, log_dirs: Sequence[LogDir]
) -> Generator[None, None, list[tuple[str, int]]]:
    used = {key for log_dir in log_dirs for key in log_dir.partitions}
    unused = []
    for topic in list(node.cluster.catalog.topics.values()):
        for partition in range(topic.partition_count):
            if not partition % PARTITIONS_PER_STEP:
                yield
            if (topic.name, partition) not in used and (
                node.cluster.has_replica(node.node_id, topic, partition)
            ):
                unused.append((topic.name, partition))
    return unused


def _topics(
    sizes: Mapping[tuple[str, int], int], wanted: set[tuple[str, int]] | None
) -> Generator[None, None, list[DescribeLogDirsTopic]]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for number, ((name, partition), size_bytes) in enumerate(sorted(sizes.items())):
        if not number % PARTITIONS_PER_STEP:
            yield
        if wanted is None or (name, partition) in wanted:
            topic = topics.setdefault(name, DescribeLogDirsTopic(name=name, partitions=[]))
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=partition,
                    partition_size=size_bytes,
                    offset_lag=0,
                    is_future_key=False,
                )
            )
    return list(topics.values())


API = serve(
    DescribeLogDirsRequest, DescribeLogDirsResponse, handle, max_elements=MAX_ELEMENTS_IN_SLICES
)
