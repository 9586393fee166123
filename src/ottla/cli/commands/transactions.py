"""`ottla transactions`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

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

STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
)
_FIND_HANGING: Final = """\
Finds transactions that nobody will end: open on a partition for longer than transactions may last, while the
coordinator knows nothing of them there. Readers of committed records wait for them; `ottla transactions abort` ends
them. Without --topic and --broker-id it looks at all partitions."""
_ABORT: Final = """\
Aborts a transaction. One that hangs is ended on its partition, by the offset where it starts; brokers before Kafka 3.0
need its producer instead. One that its coordinator still knows is ended by its transactional id: its producer is
fenced. On one of its partitions alone it is aborted only with --force, since the rest could be committed."""


def add(commands: Commands) -> None:
    """The command, its verbs and their arguments."""
    verbs = add_group(commands, "transactions", "list, describe, find and abort transactions")
    _add_list(verbs)
    _add_describe(verbs)
    _add_producers(verbs)
    _add_find_hanging(verbs)
    _add_abort(verbs)


def _add_list(verbs: Commands) -> None:
    listing = add_verb(
        verbs, "list", "list the transactional ids", "transactions.overview:list_all"
    )
    listing.epilog = "example: ottla transactions list --state Ongoing --duration 60000"
    listing.add_argument(
        "--state",
        metavar="STATE",
        action="append",
        default=[],
        type=_state,
        dest="states",
        help=f"only those in this state, one of {', '.join(STATES)}; repeatable",
    )
    listing.add_argument(
        "--producer-id",
        metavar="ID",
        action="append",
        default=[],
        type=count_from(0),
        dest="producer_ids",
        help="only those of this producer; repeatable",
    )
    listing.add_argument(
        "--duration",
        "--duration-filter",
        metavar="MS",
        type=whole,
        help="only transactions that are open for longer, in milliseconds",
    )
    listing.add_argument(
        "--pattern",
        "--transactional-id-pattern",
        metavar="REGEX",
        help="only ids that the expression matches as a whole",
    )
    add_form(listing)
    add_watch(listing)


def _add_describe(verbs: Commands) -> None:
    describe = add_verb(
        verbs, "describe", "describe transactional ids", "transactions.overview:describe"
    )
    describe.epilog = "example: ottla transactions describe orders-1"
    describe.add_argument("transactional_ids", metavar="ID", nargs="*", help="a transactional id")
    describe.add_argument(
        "--transactional-id",
        metavar="ID",
        action="append",
        default=[],
        dest="more_ids",
        help="the same; repeatable",
    )
    add_form(describe)
    add_watch(describe)


def _add_producers(verbs: Commands) -> None:
    for name in ("producers", "describe-producers"):
        producers = add_verb(
            verbs,
            name,
            "list the producers that a partition remembers"
            if name == "producers"
            else "the same as producers",
            "transactions.overview:producers",
        )
        producers.epilog = f"example: ottla transactions {name} orders 0"
        _add_partition(producers)
        producers.add_argument(
            "--broker-id", metavar="ID", type=count_from(0), help="ask this replica, not the leader"
        )
        add_form(producers)
        add_watch(producers)


def _add_find_hanging(verbs: Commands) -> None:
    finding = add_verb(
        verbs,
        "find-hanging",
        "find transactions that nobody will end",
        "transactions.overview:find_hanging",
        _FIND_HANGING,
    )
    finding.epilog = "example: ottla transactions find-hanging --topic orders"
    finding.add_argument("--topic", metavar="TOPIC", help="only in this topic")
    finding.add_argument(
        "--partition", metavar="N", type=count_from(0), help="only in this partition of the topic"
    )
    finding.add_argument(
        "--broker-id", metavar="ID", type=count_from(0), help="only on this broker"
    )
    finding.add_argument(
        "--max-transaction-timeout",
        metavar="MINUTES",
        type=count_from(0),
        default=15,
        help="how long transactions may last, in minutes; default: %(default)s",
    )
    add_form(finding)


def _add_abort(verbs: Commands) -> None:
    abort = add_verb(verbs, "abort", "abort a transaction", "transactions.abort:abort", _ABORT)
    abort.epilog = (
        "examples:\n"
        "  ottla transactions abort --topic orders --partition 0 --start-offset 17\n"
        "  ottla transactions abort --transactional-id orders-1"
    )
    _add_partition(abort)
    abort.add_argument(
        "--start-offset", metavar="OFFSET", type=count_from(0), help="where the transaction starts"
    )
    abort.add_argument(
        "--transactional-id", metavar="ID", help="whose transaction, and producer, to end"
    )
    abort.add_argument(
        "--force",
        action="store_true",
        help="on this partition alone, even if a coordinator knows the transaction",
    )
    old = abort.add_argument_group("for brokers before Kafka 3.0, all of these")
    old.add_argument("--producer-id", metavar="ID", type=count_from(0), help="likewise")
    old.add_argument("--producer-epoch", metavar="EPOCH", type=count_from(0), help="likewise")
    old.add_argument(
        "--coordinator-epoch",
        metavar="EPOCH",
        type=whole,
        help="as `transactions producers` shows it",
    )


def _add_partition(parser: argparse.ArgumentParser) -> None:
    """A topic and a partition, as words or as Kafka's tools have them."""
    parser.add_argument("named_topic", metavar="TOPIC", nargs="?", help="the topic")
    parser.add_argument(
        "named_partition", metavar="PARTITION", nargs="?", type=count_from(0), help="the partition"
    )
    parser.add_argument("--topic", metavar="TOPIC", help="the same, as Kafka's tools have it")
    parser.add_argument("--partition", metavar="N", type=count_from(0), help="the same")


def _state(text: str) -> str:
    plain = text.replace("_", "").replace("-", "").lower()
    for state in STATES:
        if state.lower() == plain:
            return state
    raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(STATES)}")
