"""Where reading starts and ends: the values of the options, and the offsets that they stand for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from ottla.errors import ConfigError, OttlaError
from ottla.model import TopicPartition
from ottla.spark.source.partition_maps import read_numbers

LATEST: Final = -1
EARLIEST: Final = -2

Lookups: TypeAlias = dict[TopicPartition, int]
"""An offset to look up: LATEST, EARLIEST, or a time in milliseconds."""


@dataclass(frozen=True)
class Everywhere:
    """The first or the last offset of each partition, or the one at a time."""

    lookup: int


@dataclass(frozen=True)
class AtOffsets:
    """An offset for each partition; LATEST and EARLIEST are allowed."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class AtTimes:
    """A time in milliseconds for each partition."""

    times_ms: Mapping[TopicPartition, int]


Limit: TypeAlias = Everywhere | AtOffsets | AtTimes


class NoRecordAtTimeError(OttlaError):
    """No record of a partition is as young as the starting timestamp."""


def read_limit(side: str, options: Mapping[str, object], default: int) -> Limit:
    """The limit in the three options of one side (`starting`, `ending`); a time wins over offsets."""
    time = options.get(f"{side}Timestamp")
    times = options.get(f"{side}OffsetsByTimestamp")
    offsets = options.get(f"{side}Offsets")
    if isinstance(time, int):
        return Everywhere(time)
    if isinstance(times, str):
        return AtTimes(read_numbers(f"{side}OffsetsByTimestamp", times, 0))
    if not isinstance(offsets, str):
        return Everywhere(default)
    words = {"earliest": EARLIEST, "latest": LATEST}
    word = offsets.strip().lower()
    if word in words:
        return Everywhere(words[word])
    return AtOffsets(read_numbers(f"{side}Offsets", offsets, EARLIEST))


def check_batch(start: Limit, end: Limit) -> None:
    """Refuse a batch query that starts at the end or ends at the start."""
    for partition in _at(start, LATEST):
        raise ConfigError(
            f"startingOffsets of {partition} is latest, where a batch query finds nothing: use "
            "earliest or an offset"
        )
    for partition in _at(end, EARLIEST):
        raise ConfigError(
            f"endingOffsets of {partition} is earliest, where a batch query finds nothing: use "
            "latest or an offset"
        )
    if (
        isinstance(start, Everywhere)
        and isinstance(end, Everywhere)
        and 0 <= end.lookup < start.lookup
    ):
        raise ConfigError(
            f"startingTimestamp ({start.lookup}) is behind endingTimestamp ({end.lookup}): lower it or "
            "raise the other"
        )
    for kind in ("offsets", "times_ms"):
        starts, ends = getattr(start, kind, None), getattr(end, kind, None)
        if starts is None or ends is None:
            continue
        if starts.keys() != ends.keys():
            raise ConfigError(
                "the options for the start and for the end name different partitions: "
                f"{_names(starts)} and {_names(ends)}"
            )
        for partition in sorted(starts):
            if 0 <= ends[partition] < starts[partition]:
                raise ConfigError(
                    f"{partition} begins at {starts[partition]}, behind its end at {ends[partition]}"
                )


def _at(limit: Limit, lookup: int) -> list[str]:
    if limit == Everywhere(lookup):
        return ["all partitions"]
    if isinstance(limit, AtOffsets):
        return [str(each) for each in sorted(limit.offsets) if limit.offsets[each] == lookup]
    return []


def check_partitions(side: str, limit: Limit, partitions: Collection[TopicPartition]) -> None:
    """Offsets or times by partition have to be given for each partition that is read, and for no other."""
    named = limit.offsets if isinstance(limit, AtOffsets) else getattr(limit, "times_ms", None)
    if named is None or named.keys() == set(partitions):
        return
    missing = [each for each in sorted(partitions) if each not in named]
    strange = [each for each in sorted(named) if each not in partitions]
    parts = [
        *([f"{_names(missing)} must be named too"] if missing else []),
        *([f"{_names(strange)} are not read"] if strange else []),
    ]
    option, hint = f"{side}OffsetsByTimestamp", ""
    if isinstance(limit, AtOffsets):
        option, hint = f"{side}Offsets", " -2 is the earliest offset and -1 the latest."
    raise ConfigError(
        f"{option} must name exactly the partitions that are read: {', and '.join(parts)}.{hint}"
    )


def lookups(limit: Limit, partitions: Collection[TopicPartition]) -> Lookups:
    """The offsets to look up before `resolve`."""
    match limit:
        case Everywhere(lookup):
            return dict.fromkeys(sorted(partitions), lookup)
        case AtTimes(times_ms):
            return dict(times_ms)
        case AtOffsets(offsets):
            return {each: offset for each, offset in offsets.items() if offset < 0}


def resolve(
    limit: Limit,
    partitions: Collection[TopicPartition],
    found: Mapping[TopicPartition, int | None],
) -> dict[TopicPartition, int | None]:
    """The offset of each partition; None where no record is as young as the given time."""
    known = limit.offsets if isinstance(limit, AtOffsets) else {}
    return {
        each: known[each] if known.get(each, EARLIEST) >= 0 else found[each]
        for each in sorted(partitions)
    }


def check_found(offsets: Mapping[TopicPartition, int | None]) -> None:
    """Refuse partitions without a record that is as young as the starting timestamp."""
    missing = [each for each in sorted(offsets) if offsets[each] is None]
    if missing:
        raise NoRecordAtTimeError(
            f"No record of {_names(missing)} is as young as the starting timestamp: set "
            "startingOffsetsByTimestampStrategy=latest to start after the last record there"
        )


def _names(partitions: Collection[TopicPartition]) -> str:
    shown = [str(each) for each in sorted(partitions)]
    more = f" and {len(shown) - 10} more" if len(shown) > 10 else ""
    return ", ".join(shown[:10]) + more
