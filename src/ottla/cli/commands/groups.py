"""`ottla groups`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Argument, Flag, Option, exclusive
from ottla.cli.commands.shared_options import (
    FILE,
    GROUP,
    connection,
    count_from,
    examples,
    form,
    isolation,
    listing,
    whole,
)
from ottla.cli.commands.syntax import Command, Group

_DESCRIBE_TEXT: Final = """\
Show committed offsets, ends of logs and lag of groups, and which member reads which partition.

LAG is the number of records that a group has yet to read. The next 10,000 records of a partition are counted without
markers of transactions, which have offsets but which no consumer reads; after those, offsets are counted. With
--isolation read_committed the log ends where the first open transaction begins, and aborted records do not count.

--verbose shows everything: the state of each group, its members and their offsets. In groups of the consumer protocol
(KIP-848) each member has an epoch, the partitions that it owns (CURRENT-ASSIGNMENT), and those that it shall own
(TARGET-ASSIGNMENT). While these differ, the group is Reconciling. TYPE is the protocol of a member: during a migration
a group has members of both. SUBSCRIPTION has topics, and a pattern between slashes.
"""


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _groups() -> list[Argument | Option]:
    return [
        Argument("groups", "a group", nargs=-1, type=GROUP),
        # As Kafka's tool has it.
        Option("--group more_groups", "the same", type=GROUP, multiple=True, hidden=True),
    ]


def _all_groups(help_text: str = "all consumer groups of the cluster") -> Option:
    return Flag("--all-groups", help_text)


def _topic(*, is_required: bool = False) -> Option:
    return Option(
        "--topic topics",
        "a topic, or some of its partitions; repeatable",
        metavar="TOPIC[:N,N]",
        multiple=True,
        required=is_required,
    )


_LIST: Final = Command(
    "list",
    "list the groups",
    "groups.overview:list_groups",
    [
        Option("--state", "only these: Stable,Empty,…", metavar="STATES", type=_words, default=""),
        Option(
            "--type",
            "only these: Classic,Consumer,Share,Streams",
            metavar="TYPES",
            type=_words,
            default="",
        ),
        *listing(),
    ],
    epilog=examples("ottla groups list --state Stable,Empty", "ottla groups list --type Consumer"),
)

_DESCRIBE: Final = Command(
    "describe",
    "show offsets and lag, members, epochs and state of groups",
    "groups.overview:describe_groups",
    [
        *_groups(),
        _all_groups("all groups of the cluster, of every type"),
        *exclusive(
            Flag(
                "--offsets",
                "committed offsets and lag; this is the default",
                const="offsets",
                into="what",
            ),
            Flag(
                "--members",
                "the members; with --verbose also their epochs, assignments and subscriptions",
                const="members",
                into="what",
            ),
            Flag(
                "--state",
                "the groups themselves; with --verbose also their epochs",
                const="state",
                into="what",
            ),
        ),
        isolation(
            "isolation level of the consumers whose lag is counted; default: read_uncommitted"
        ),
        *listing(),
    ],
    description=_DESCRIBE_TEXT,
    epilog=examples(
        "ottla groups describe kitchen",
        "ottla groups describe --all-groups --state",
        "ottla groups describe kitchen --verbose",
        "ottla groups describe kitchen --members --verbose -o json",
    ),
)

_RESET: Final = Command(
    "reset-offsets",
    "change the committed offsets of groups",
    "groups.offset_reset:reset_offsets",
    [
        *_groups(),
        _all_groups(),
        *exclusive(
            _topic(), Flag("--all-topics", "all partitions for which the group has offsets")
        ),
        *exclusive(
            Flag("--to-earliest", "the first record"),
            Flag("--to-latest", "behind the last record"),
            Flag("--to-current", "the committed offset, or the end without one"),
            Option("--to-offset", "this offset", type=count_from(0)),
            Option("--shift-by", "forward, or back if below 0", metavar="N", type=whole),
            Option(
                "--to-datetime",
                "the first record at or after 2026-11-15T17:00:00.000 (UTC, or with a zone)",
                metavar="TIME",
            ),
            Option(
                "--by-duration",
                "the first record of the last DURATION: 10m, PT1H30M",
                metavar="DURATION",
            ),
            Option(
                "--from-file", "lines of topic,partition,offset, or with the group first", type=FILE
            ),
            is_required=True,
        ),
        *exclusive(
            Flag("--execute", "commit the new offsets"),
            Flag("--dry-run", "only show the new offsets; this is the default"),
        ),
        Flag("--export", "print lines as --from-file reads them, instead of a table"),
        form(),
        *connection(),
    ],
    description="Changes the committed offsets of groups, which must have no members. This is a dry run unless\n"
    "--execute is given.",
    epilog=examples(
        "ottla groups reset-offsets kitchen --topic orders --to-earliest",
        "ottla groups reset-offsets kitchen --topic orders:0,2 --by-duration PT1H --execute",
        "ottla groups reset-offsets kitchen --all-topics --to-current --export > plan.csv",
        "ottla groups reset-offsets kitchen --from-file plan.csv --execute",
    ),
)
_DELETE: Final = Command(
    "delete",
    "delete groups that have no members",
    "groups.overview:delete_groups",
    [*_groups(), _all_groups(), *connection()],
    epilog=examples("ottla groups delete kitchen"),
)
_DELETE_OFFSETS: Final = Command(
    "delete-offsets",
    "delete committed offsets of topics that a group does not read",
    "groups.offset_reset:delete_offsets",
    [*_groups(), _topic(is_required=True), *connection()],
    epilog=examples("ottla groups delete-offsets kitchen --topic orders:0"),
)

COMMAND: Final = Group(
    "groups", SUMMARIES["groups"], [_LIST, _DESCRIBE, _RESET, _DELETE, _DELETE_OFFSETS]
)
