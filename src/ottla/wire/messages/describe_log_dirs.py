"""DescribeLogDirs: sizes of partitions in each log directory (KIP-113), disk space (KIP-827)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Bool, Int16, Int32, Int64, String


@struct
class DescribableLogDirTopic:
    topic: String
    partitions: list[Int32]


@message(api=35, versions="1-5", flexible="2+")
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None


@struct
class DescribeLogDirsPartition:
    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool


@struct
class DescribeLogDirsTopic:
    name: String
    partitions: list[DescribeLogDirsPartition]


@struct
class DescribeLogDirsResult:
    error_code: Int16
    log_dir: String
    topics: list[DescribeLogDirsTopic]
    total_bytes: Int64 = wire(since=4, default=-1)
    usable_bytes: Int64 = wire(since=4, default=-1)
    is_cordoned: Bool = wire(since=5, default=False)


@message(api=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(since=3, default=0)
    results: list[DescribeLogDirsResult]
