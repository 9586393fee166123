"""`ottla groups`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ottla.cli.commands.parameters import (
    add_form,
    add_group,
    add_verb,
    add_watch,
    count_from,
    whole,
)

if TYPE_CHECKING:
    from ottla.cli.commands.parameters import Commands

DESCRIBE = """\
Show how far groups are: what they committed, where the logs end, and who reads what.

LAG is the number of records that a group has yet to read. Markers of transactions have offsets too, but nobody reads
them: they do not count, as far as the next 10,000 records of a partition go; behind those, offsets are counted. With
--isolation read_committed the log ends where the first open transaction begins, and aborted records do not count.
"""
DESCRIBE_EXAMPLES = """\
examples:
  ottla groups describe kitchen
  ottla groups describe --all-groups --state
  ottla groups describe kitchen --members --verbose
"""
RESET = """\
Set where groups go on reading. This is a dry run unless --execute is given; the groups must have no members.
"""
RESET_EXAMPLES = """\
examples:
  ottla groups reset-offsets kitchen --topic orders --to-earliest
  ottla groups reset-offsets kitchen --topic orders:0,2 --by-duration PT1H --execute
  ottla groups reset-offsets kitchen --all-topics --to-current --export > plan.csv
  ottla groups reset-offsets kitchen --from-file plan.csv --execute
"""


def add(commands: Commands) -> None:
    """The command, its verbs and their arguments."""
    verbs = add_group(
        commands, "groups", "list, describe, reset and delete consumer groups and their offsets"
    )
    _add_list(verbs)
    _add_describe(verbs)
    _add_reset(verbs)
    deleting = add_verb(
        verbs, "delete", "delete groups that have no members", "groups.overview:delete_groups"
    )
    deleting.epilog = "example:\n  ottla groups delete kitchen"
    _add_names(deleting)
    forgetting = add_verb(
        verbs,
        "delete-offsets",
        "forget what a group committed for topics that it does not read",
        "groups.offset_reset:delete_offsets",
    )
    forgetting.epilog = "example:\n  ottla groups delete-offsets kitchen --topic orders:0"
    forgetting.add_argument("groups", nargs="*", metavar="GROUP")
    _add_group_option(forgetting)
    _add_topic(forgetting, required=True)


def _add_list(verbs: Commands) -> None:
    listing = add_verb(verbs, "list", "list the groups", "groups.overview:list_groups")
    listing.epilog = "example:\n  ottla groups list --state Stable,Empty"
    listing.add_argument(
        "--state", type=_words, default=[], metavar="STATES", help="only these: Stable,Empty,…"
    )
    listing.add_argument(
        "--type", type=_words, default=[], metavar="TYPES", help="only these: Classic,Consumer,…"
    )
    add_form(listing)
    add_watch(listing)


def _add_describe(verbs: Commands) -> None:
    describing = add_verb(
        verbs, "describe", "show how far groups are", "groups.overview:describe_groups", DESCRIBE
    )
    describing.epilog = DESCRIBE_EXAMPLES
    _add_names(describing)
    what = describing.add_mutually_exclusive_group()
    what.add_argument(
        "--offsets",
        action="store_const",
        const="offsets",
        dest="what",
        default="offsets",
        help="partitions and how far they are read; this is the default",
    )
    what.add_argument(
        "--members",
        action="store_const",
        const="members",
        dest="what",
        help="who is in the group; with --verbose also which partitions they have",
    )
    what.add_argument(
        "--state", action="store_const", const="state", dest="what", help="the groups themselves"
    )
    describing.add_argument(
        *("--isolation", "--isolation-level"),
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        help="for whom lag is counted; default: %(default)s",
    )
    add_form(describing)
    add_watch(describing)


def _add_reset(verbs: Commands) -> None:
    resetting = add_verb(
        verbs, "reset-offsets", "set where groups go on", "groups.offset_reset:reset_offsets", RESET
    )
    resetting.epilog = RESET_EXAMPLES
    _add_names(resetting)
    scope = resetting.add_mutually_exclusive_group()
    _add_topic(scope)
    scope.add_argument(
        "--all-topics", action="store_true", help="all partitions for which the group has offsets"
    )
    where = resetting.add_mutually_exclusive_group(required=True)
    where.add_argument("--to-earliest", action="store_true", help="the first record")
    where.add_argument("--to-latest", action="store_true", help="behind the last record")
    where.add_argument(
        "--to-current", action="store_true", help="where it is; the end where it is nowhere"
    )
    where.add_argument("--to-offset", type=count_from(0), metavar="N", help="this offset")
    where.add_argument("--shift-by", type=whole, metavar="N", help="forward, or back if below 0")
    where.add_argument(
        "--to-datetime",
        metavar="TIME",
        help="the first record at or after 2026-11-15T17:00:00.000 (UTC, or with a zone)",
    )
    where.add_argument(
        "--by-duration",
        metavar="DURATION",
        help="the first record that is not older: 10m, PT1H30M",
    )
    where.add_argument(
        "--from-file",
        metavar="FILE",
        help="lines of topic,partition,offset, or with the group first",
    )
    does = resetting.add_mutually_exclusive_group()
    does.add_argument("--execute", action="store_true", help="do it")
    does.add_argument(
        "--dry-run", action="store_true", help="show what would be done; this is the default"
    )
    resetting.add_argument(
        "--export",
        action="store_true",
        help="print lines as --from-file reads them, instead of a table",
    )
    add_form(resetting)


def _add_names(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("groups", nargs="*", metavar="GROUP")
    _add_group_option(verb)
    verb.add_argument("--all-groups", action="store_true", help="all of the cluster")


def _add_group_option(verb: argparse.ArgumentParser) -> None:
    """As Kafka's tool has it."""
    verb.add_argument(
        "--group", action="append", default=[], dest="more_groups", help=argparse.SUPPRESS
    )


def _add_topic(verb: argparse._ActionsContainer, *, required: bool = False) -> None:
    verb.add_argument(
        "--topic",
        action="append",
        default=[],
        dest="topics",
        required=required,
        metavar="TOPIC[:N,N]",
        help="a topic, or some of its partitions; repeatable",
    )


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
