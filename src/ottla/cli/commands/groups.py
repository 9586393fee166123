"""`ottla groups`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.parameters import (
    FILE,
    GROUP,
    ISOLATION,
    connection,
    count_from,
    examples,
    form,
    watch,
    whole,
)
from ottla.cli.commands.syntax import Argument, Command, Exclusive, Group, Option

_DESCRIBE_TEXT: Final = """\
Show how far groups are: what they committed, where the logs end, and who reads what.

LAG is the number of records that a group has yet to read. Markers of transactions have offsets too, but nobody reads
them: they do not count, as far as the next 10,000 records of a partition go; behind those, offsets are counted. With
--isolation read_committed the log ends where the first open transaction begins, and aborted records do not count.
"""


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _groups() -> list[Argument | Option]:
    return [
        Argument("groups", metavar="GROUP", nargs=-1, type=GROUP, help="a group"),
        # As Kafka's tool has it.
        Option(
            "--group",
            "more_groups",
            metavar="GROUP",
            type=GROUP,
            multiple=True,
            hidden=True,
            help="the same",
        ),
    ]


def _all_groups() -> Option:
    return Option("--all-groups", is_flag=True, help="all of the cluster")


def _topic(*, is_required: bool = False, among: Exclusive | None = None) -> Option:
    return Option(
        "--topic",
        "topics",
        metavar="TOPIC[:N,N]",
        multiple=True,
        required=is_required,
        among=among,
        help="a topic, or some of its partitions; repeatable",
    )


_LIST: Final = Command(
    "list",
    "list the groups",
    "groups.overview:list_groups",
    [
        Option(
            "--state", metavar="STATES", type=_words, default="", help="only these: Stable,Empty,…"
        ),
        Option(
            "--type",
            metavar="TYPES",
            type=_words,
            default="",
            help="only these: Classic,Consumer,…",
        ),
        form(),
        watch(),
        *connection(),
    ],
    epilog=examples("ottla groups list --state Stable,Empty"),
)

_WHAT: Final = Exclusive()
_DESCRIBE: Final = Command(
    "describe",
    "show how far groups are",
    "groups.overview:describe_groups",
    [
        *_groups(),
        _all_groups(),
        Option(
            "--offsets",
            const="offsets",
            into="what",
            among=_WHAT,
            help="partitions and how far they are read; this is the default",
        ),
        Option(
            "--members",
            const="members",
            into="what",
            among=_WHAT,
            help="who is in the group; with --verbose also which partitions they have",
        ),
        Option("--state", const="state", into="what", among=_WHAT, help="the groups themselves"),
        Option(
            "--isolation",
            "--isolation-level",
            "isolation",
            type=ISOLATION,
            default="read_uncommitted",
            help="for whom lag is counted; default: read_uncommitted",
        ),
        form(),
        watch(),
        *connection(),
    ],
    description=_DESCRIBE_TEXT,
    epilog=examples(
        "ottla groups describe kitchen",
        "ottla groups describe --all-groups --state",
        "ottla groups describe kitchen --members --verbose",
    ),
)

_SCOPE, _DOES = Exclusive(), Exclusive()
_WHERE: Final = Exclusive(is_required=True)
_RESET: Final = Command(
    "reset-offsets",
    "set where groups go on",
    "groups.offset_reset:reset_offsets",
    [
        *_groups(),
        _all_groups(),
        _topic(among=_SCOPE),
        Option(
            "--all-topics",
            is_flag=True,
            among=_SCOPE,
            help="all partitions for which the group has offsets",
        ),
        Option("--to-earliest", is_flag=True, among=_WHERE, help="the first record"),
        Option("--to-latest", is_flag=True, among=_WHERE, help="behind the last record"),
        Option(
            "--to-current",
            is_flag=True,
            among=_WHERE,
            help="where it is; the end where it is nowhere",
        ),
        Option("--to-offset", metavar="N", type=count_from(0), among=_WHERE, help="this offset"),
        Option(
            "--shift-by", metavar="N", type=whole, among=_WHERE, help="forward, or back if below 0"
        ),
        Option(
            "--to-datetime",
            metavar="TIME",
            among=_WHERE,
            help="the first record at or after 2026-11-15T17:00:00.000 (UTC, or with a zone)",
        ),
        Option(
            "--by-duration",
            metavar="DURATION",
            among=_WHERE,
            help="the first record that is not older: 10m, PT1H30M",
        ),
        Option(
            "--from-file",
            metavar="FILE",
            type=FILE,
            among=_WHERE,
            help="lines of topic,partition,offset, or with the group first",
        ),
        Option("--execute", is_flag=True, among=_DOES, help="do it"),
        Option(
            "--dry-run",
            is_flag=True,
            among=_DOES,
            help="show what would be done; this is the default",
        ),
        Option(
            "--export",
            is_flag=True,
            help="print lines as --from-file reads them, instead of a table",
        ),
        form(),
        *connection(),
    ],
    description="Set where groups go on reading. This is a dry run unless --execute is given; the groups must have no\n"
    "members.",
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
    "forget what a group committed for topics that it does not read",
    "groups.offset_reset:delete_offsets",
    [*_groups(), _topic(is_required=True), *connection()],
    epilog=examples("ottla groups delete-offsets kitchen --topic orders:0"),
)

COMMAND: Final = Group(
    "groups", SUMMARIES["groups"], [_LIST, _DESCRIBE, _RESET, _DELETE, _DELETE_OFFSETS]
)
