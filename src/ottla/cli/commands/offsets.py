"""`ottla offsets`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cli.commands.parameters import add_examples, add_form, add_topics, add_verb, add_watch

if TYPE_CHECKING:
    from ottla.cli.commands.parameters import Commands


def add(commands: Commands) -> None:
    """The command and its arguments."""
    offsets = add_verb(
        commands,
        "offsets",
        "show first, last or other offsets of partitions",
        "cluster.offsets:offsets",
        "Shows an offset of each partition: the last one (where the next record will be), or with\n"
        "--time the first one, that of the newest record, or that of the first record since some time.",
    )
    add_topics(offsets, "a name, or a regular expression for whole names; default: all")
    offsets.add_argument("--partitions", metavar="N,N", help="only these partitions")
    offsets.add_argument(
        "--topic-partitions",
        metavar="TOPIC:N,TOPIC:FIRST-END,…",
        help="topics and partitions in one, as Kafka's tool has it; the partition END is excluded",
    )
    offsets.add_argument(
        "--time",
        metavar="WHEN",
        default="latest",
        help="earliest, latest, max-timestamp, earliest-local, latest-tiered; milliseconds since 1970; "
        "a date as 2026-01-31T12:00:00; or how long ago, as 15m, 2h or P1D; default: latest",
    )
    offsets.add_argument(
        "--isolation",
        "--isolation-level",
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        help="whether the latest is the end of the log, or that of what is committed; "
        "default: %(default)s",
    )
    offsets.add_argument(
        "--exclude-internal",
        "--exclude-internal-topics",
        action="store_true",
        help="leave out the broker's own topics",
    )
    add_form(offsets)
    add_watch(offsets)
    add_examples(offsets, "ottla offsets orders", "ottla offsets 'orders-.*' --time 2h")
