"""`ottla transactions`."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Argument, Flag, Option, section
from ottla.cli.commands.shared_options import (
    TOPIC,
    TRANSACTIONAL_ID,
    connection,
    count_from,
    examples,
    form,
    listing,
    whole,
)
from ottla.cli.commands.syntax import Command, Group

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
Finds transactions that no coordinator will end: open on a partition for longer than transactions may last, while the
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
        Argument("named_topic", "the topic", required=False, type=TOPIC),
        Argument(
            "named_partition",
            "the partition",
            metavar="PARTITION",
            required=False,
            type=count_from(0),
        ),
        Option("--topic", "the same, as Kafka's tools have it", type=TOPIC),
        Option("--partition", "the same", type=count_from(0)),
    ]


def _producers(name: str, summary: str) -> Command:
    return Command(
        name,
        summary,
        "transactions.overview:producers",
        [
            *_partition(),
            Option(
                "--broker-id", "ask this replica, not the leader", metavar="ID", type=count_from(0)
            ),
            *listing(),
        ],
        epilog=examples(f"ottla transactions {name} orders 0"),
    )


_LIST: Final = Command(
    "list",
    "list the transactional ids",
    "transactions.overview:list_all",
    [
        Option(
            "--state states",
            f"only those in this state, one of {', '.join(STATES)}; repeatable",
            metavar="STATE",
            type=_state,
            multiple=True,
        ),
        Option(
            "--producer-id producer_ids",
            "only those of this producer; repeatable",
            metavar="ID",
            type=count_from(0),
            multiple=True,
        ),
        Option(
            "--duration --duration-filter duration",
            "only transactions that are open for longer, in milliseconds",
            metavar="MS",
            type=whole,
        ),
        Option(
            "--pattern --transactional-id-pattern pattern",
            "only ids that the expression matches as a whole",
            metavar="REGEX",
        ),
        *listing(),
    ],
    epilog=examples("ottla transactions list --state Ongoing --duration 60000"),
)
_DESCRIBE: Final = Command(
    "describe",
    "describe transactional ids",
    "transactions.overview:describe",
    [
        Argument(
            "transactional_ids", "a transactional id", metavar="ID", nargs=-1, type=TRANSACTIONAL_ID
        ),
        Option(
            "--transactional-id more_ids",
            "the same; repeatable",
            metavar="ID",
            type=TRANSACTIONAL_ID,
            multiple=True,
        ),
        *listing(),
    ],
    epilog=examples("ottla transactions describe orders-1"),
)
_FIND_HANGING: Final = Command(
    "find-hanging",
    "find transactions that no coordinator will end",
    "transactions.overview:find_hanging",
    [
        Option("--topic", "only in this topic", type=TOPIC),
        Option("--partition", "only in this partition of the topic", type=count_from(0)),
        Option("--broker-id", "only on this broker", metavar="ID", type=count_from(0)),
        Option(
            "--max-transaction-timeout",
            "how long transactions may last, in minutes; default: 15",
            metavar="MINUTES",
            type=count_from(0),
            default=15,
        ),
        form(),
        *connection(),
    ],
    description=_FIND_HANGING_TEXT,
    epilog=examples("ottla transactions find-hanging --topic orders"),
)
_ABORT: Final = Command(
    "abort",
    "abort a transaction",
    "transactions.abort:abort",
    [
        *_partition(),
        Option(
            "--start-offset", "where the transaction starts", metavar="OFFSET", type=count_from(0)
        ),
        Option(
            "--transactional-id",
            "abort the transaction of this transactional id, and fence its producer",
            metavar="ID",
            type=TRANSACTIONAL_ID,
        ),
        Flag(
            "--force", "abort on this partition alone, even if a coordinator knows the transaction"
        ),
        *section(
            "for brokers before Kafka 3.0, all of these",
            [
                Option("--producer-id", "its producer", metavar="ID", type=count_from(0)),
                Option(
                    "--producer-epoch",
                    "the epoch of its producer",
                    metavar="EPOCH",
                    type=count_from(0),
                ),
                Option(
                    "--coordinator-epoch",
                    "as `transactions producers` shows it",
                    metavar="EPOCH",
                    type=whole,
                ),
            ],
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
