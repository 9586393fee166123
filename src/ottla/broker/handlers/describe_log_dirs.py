"""DescribeLogDirs: where partitions are kept and how large they are."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.request import RequestContext
from ottla.errors import ErrorCode
from ottla.ports import LogDir
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

REQUEST = DescribeLogDirsRequest


def handle(
    node: Node, request: DescribeLogDirsRequest, context: RequestContext
) -> DescribeLogDirsResponse:
    wanted = None
    if request.topics is not None:
        wanted = {
            (asked.topic, partition) for asked in request.topics for partition in asked.partitions
        }
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                error_code=ErrorCode.NONE,
                log_dir=log_dir.path,
                topics=_topics(log_dir, wanted),
                total_bytes=log_dir.total_bytes,
                usable_bytes=log_dir.usable_bytes,
            )
            for log_dir in node.cluster.store.log_dirs()
        ]
    )


def _topics(log_dir: LogDir, wanted: set[tuple[str, int]] | None) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for (name, partition), size_bytes in sorted(log_dir.partitions.items()):
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
