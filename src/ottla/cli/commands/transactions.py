"""`ottla transactions`."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.parameters import (
    TOPIC,
    TRANSACTIONAL_ID,
    connection,
    count_from,
    examples,
    form,
    watch,
    whole,
)
from ottla.cli.commands.syntax import Argument, Command, Group, Option

STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
)
_FIND_HANGING_TEXT: Final = """\
Finds transactions that nobody will end: open on a partition for longer than transactions may last, while the
coordinator knows nothing of them there. Readers of committed records wait for them; `ottla transactions abort` ends
them. Without --topic and --broker-id it looks at all partitions."""
_ABORT_TEXT: Final = """\
Aborts a transaction. One that hangs is ended on its partition, by the offset where it starts; brokers before Kafka 3.0
need its producer instead. One that its coordinator still knows is ended by its transactional id: its producer is
fenced. On one of its partitions alone it is aborted only with --force, since the rest could be committed."""


def _state(text: str) -> str:
    plain = text.replace("_", "").replace("-", "").lower()
    for state in STATES:
        if state.lower() == plain:
            return state
    raise click.BadParameter(f"{text!r} is none of {', '.join(STATES)}")


def _partition() -> list[Argument | Option]:
    """A topic and a partition, as words or as Kafka's tools have them."""
    return [
        Argument("named_topic", metavar="TOPIC", required=False, type=TOPIC, help="the topic"),
        Argument(
            "named_partition",
            metavar="PARTITION",
            required=False,
            type=count_from(0),
            help="the partition",
        ),
        Option("--topic", metavar="TOPIC", type=TOPIC, help="the same, as Kafka's tools have it"),
        Option("--partition", metavar="N", type=count_from(0), help="the same"),
    ]


def _producers(name: str, summary: str) -> Command:
    return Command(
        name,
        summary,
        "transactions.overview:producers",
        [
            *_partition(),
            Option(
                "--broker-id",
                metavar="ID",
                type=count_from(0),
                help="ask this replica, not the leader",
            ),
            form(),
            watch(),
            *connection(),
        ],
        epilog=examples(f"ottla transactions {name} orders 0"),
    )


_LIST: Final = Command(
    "list",
    "list the transactional ids",
    "transactions.overview:list_all",
    [
        Option(
            "--state",
            "states",
            metavar="STATE",
            type=_state,
            multiple=True,
            help=f"only those in this state, one of {', '.join(STATES)}; repeatable",
        ),
        Option(
            "--producer-id",
            "producer_ids",
            metavar="ID",
            type=count_from(0),
            multiple=True,
            help="only those of this producer; repeatable",
        ),
        Option(
            "--duration",
            "--duration-filter",
            "duration",
            metavar="MS",
            type=whole,
            help="only transactions that are open for longer, in milliseconds",
        ),
        Option(
            "--pattern",
            "--transactional-id-pattern",
            "pattern",
            metavar="REGEX",
            help="only ids that the expression matches as a whole",
        ),
        form(),
        watch(),
        *connection(),
    ],
    epilog=examples("ottla transactions list --state Ongoing --duration 60000"),
)
_DESCRIBE: Final = Command(
    "describe",
    "describe transactional ids",
    "transactions.overview:describe",
    [
        Argument(
            "transactional_ids",
            metavar="ID",
            nargs=-1,
            type=TRANSACTIONAL_ID,
            help="a transactional id",
        ),
        Option(
            "--transactional-id",
            "more_ids",
            metavar="ID",
            type=TRANSACTIONAL_ID,
            multiple=True,
            help="the same; repeatable",
        ),
        form(),
        watch(),
        *connection(),
    ],
    epilog=examples("ottla transactions describe orders-1"),
)
_FIND_HANGING: Final = Command(
    "find-hanging",
    "find transactions that nobody will end",
    "transactions.overview:find_hanging",
    [
        Option("--topic", metavar="TOPIC", type=TOPIC, help="only in this topic"),
        Option(
            "--partition",
            metavar="N",
            type=count_from(0),
            help="only in this partition of the topic",
        ),
        Option("--broker-id", metavar="ID", type=count_from(0), help="only on this broker"),
        Option(
            "--max-transaction-timeout",
            metavar="MINUTES",
            type=count_from(0),
            default=15,
            help="how long transactions may last, in minutes; default: 15",
        ),
        form(),
        *connection(),
    ],
    description=_FIND_HANGING_TEXT,
    epilog=examples("ottla transactions find-hanging --topic orders"),
)
_OLD: Final = "for brokers before Kafka 3.0, all of these"
_ABORT: Final = Command(
    "abort",
    "abort a transaction",
    "transactions.abort:abort",
    [
        *_partition(),
        Option(
            "--start-offset",
            metavar="OFFSET",
            type=count_from(0),
            help="where the transaction starts",
        ),
        Option(
            "--transactional-id",
            metavar="ID",
            type=TRANSACTIONAL_ID,
            help="whose transaction, and producer, to end",
        ),
        Option(
            "--force",
            is_flag=True,
            help="on this partition alone, even if a coordinator knows the transaction",
        ),
        Option(
            "--producer-id", metavar="ID", type=count_from(0), section=_OLD, help="its producer"
        ),
        Option(
            "--producer-epoch",
            metavar="EPOCH",
            type=count_from(0),
            section=_OLD,
            help="the epoch of its producer",
        ),
        Option(
            "--coordinator-epoch",
            metavar="EPOCH",
            type=whole,
            section=_OLD,
            help="as `transactions producers` shows it",
        ),
        *connection(),
    ],
    description=_ABORT_TEXT,
    epilog=examples(
        "ottla transactions abort --topic orders --partition 0 --start-offset 17",
        "ottla transactions abort --transactional-id orders-1",
    ),
)

COMMAND: Final = Group(
    "transactions",
    SUMMARIES["transactions"],
    [
        _LIST,
        _DESCRIBE,
        _producers("producers", "list the producers that a partition remembers"),
        _producers("describe-producers", "the same as producers"),
        _FIND_HANGING,
        _ABORT,
    ],
)
