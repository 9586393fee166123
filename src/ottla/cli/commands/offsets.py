"""`ottla offsets`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.parameters import (
    ISOLATION,
    PATTERN,
    connection,
    examples,
    form,
    topics,
    watch,
)
from ottla.cli.commands.syntax import Command, Option

COMMAND: Final = Command(
    "offsets",
    SUMMARIES["offsets"],
    "cluster.offsets:offsets",
    [
        *topics(f"{PATTERN}; default: all"),
        Option("--partitions", metavar="N,N", help="only these partitions"),
        Option(
            "--topic-partitions",
            metavar="TOPIC:N,TOPIC:FIRST-END,…",
            help="topics and partitions in one, as Kafka's tool has it; the partition END is excluded",
        ),
        Option(
            "--time",
            metavar="WHEN",
            default="latest",
            help="earliest, latest, max-timestamp, earliest-local, latest-tiered; milliseconds since 1970; "
            "a date as 2026-01-31T12:00:00; or how long ago, as 15m, 2h or P1D; default: latest",
        ),
        Option(
            "--isolation",
            "--isolation-level",
            "isolation",
            type=ISOLATION,
            default="read_uncommitted",
            help="whether the latest is the end of the log, or that of what is committed; "
            "default: read_uncommitted",
        ),
        Option(
            "--exclude-internal",
            "--exclude-internal-topics",
            "exclude_internal",
            is_flag=True,
            help="leave out the broker's own topics",
        ),
        form(),
        watch(),
        *connection(),
    ],
    description="Shows an offset of each partition: the last one (where the next record will be), or with\n"
    "--time the first one, that of the newest record, or that of the first record since some time.",
    epilog=examples("ottla offsets orders", "ottla offsets 'orders-.*' --time 2h"),
)
