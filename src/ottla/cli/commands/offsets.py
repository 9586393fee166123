"""`ottla offsets`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Flag, Option
from ottla.cli.commands.shared_options import PATTERN, examples, isolation, listing, topics
from ottla.cli.commands.syntax import Command

COMMAND: Final = Command(
    "offsets",
    SUMMARIES["offsets"],
    "cluster.offsets:offsets",
    [
        *topics(f"{PATTERN}; default: all"),
        Option("--partitions", "only these partitions", metavar="N,N"),
        Option(
            "--topic-partitions",
            "topics and partitions in one, as Kafka's tool has it; the partition END is excluded",
            metavar="TOPIC:N,TOPIC:FIRST-END,…",
        ),
        Option(
            "--time",
            "earliest, latest, max-timestamp, earliest-local, latest-tiered; milliseconds since 1970; "
            "a date as 2026-01-31T12:00:00; or how long ago, as 15m, 2h or P1D; default: latest",
            metavar="WHEN",
            default="latest",
        ),
        isolation(
            "latest is the end of the log, or with read_committed the last stable offset; "
            "default: read_uncommitted"
        ),
        Flag(
            "--exclude-internal --exclude-internal-topics exclude_internal",
            "leave out the broker's own topics",
        ),
        *listing(),
    ],
    description="Shows an offset of each partition: the last one (where the next record will be), or with\n"
    "--time the first one, that of the newest record, or that of the first record since some time.",
    epilog=examples("ottla offsets orders", "ottla offsets 'orders-.*' --time 2h"),
)
