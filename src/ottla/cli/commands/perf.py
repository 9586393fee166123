"""`ottla perf`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.escapes import separator
from ottla.cli.commands.parameters import (
    FILE,
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    connection,
    count_from,
    examples,
    form,
    seconds,
)
from ottla.cli.commands.syntax import Argument, Choice, Command, Exclusive, Group, Option

RECORD_BYTES: Final = 100
_PRODUCE_TEXT: Final = """\
Sends records and prints the summary line of kafka-producer-perf-test. The latency of a record is the time from the call
that sends it to its acknowledgement. Options of the producer go with -X, as -X acks=1 -X linger.ms=0."""
_CONSUME_TEXT: Final = """\
Reads records and prints the lines of kafka-consumer-perf-test. Options of the consumer go with -X."""
_LATENCY_TEXT: Final = """\
Sends one record after the other, reads each back before it sends the next, and prints what Kafka's EndToEndLatency
prints. The topic is made if it is not there."""
_TRANSACTIONS_TEXT: Final = """\
Writes transactions, one after the other by each producer, and prints how many were committed per second and how long
the commits took."""


def _topic() -> list[Argument | Option]:
    return [
        Argument("topics", metavar="TOPIC", nargs=-1, type=TOPIC, help="the topic"),
        Option("--topic", metavar="TOPIC", type=TOPIC, help="the same"),
    ]


def _count(default: int) -> Option:
    return Option(
        "--num-records",
        metavar="N",
        type=count_from(1),
        default=default,
        help=f"how many records to send; default: {default}",
    )


def _size(among: Exclusive | None = None) -> Option:
    return Option(
        "--record-size",
        metavar="BYTES",
        type=count_from(1),
        among=among,
        help=f"the size of their values; default: {RECORD_BYTES}",
    )


def _payloads() -> list[Option]:
    one = Exclusive()
    return [
        _size(one),
        Option(
            "--payload-file",
            metavar="FILE",
            type=FILE,
            among=one,
            help="take values from a file, in any order",
        ),
        Option("--payload-monotonic", is_flag=True, among=one, help="values are numbers from 0 on"),
        Option(
            "--payload-delimiter",
            metavar="TEXT",
            type=separator,
            help="what stands between the values of the file, with \\n, \\t, \\xNN; default: \\n",
        ),
    ]


def _throughput() -> Option:
    return Option(
        "--throughput",
        metavar="RECORDS",
        type=float,
        default=-1,
        help="send at most so many records in a second; default: as many as possible",
    )


def _warmup() -> Option:
    return Option(
        "--warmup",
        "--warmup-records",
        "warmup",
        metavar="N",
        type=count_from(0),
        default=0,
        help="send so many records before what is measured; default: 0",
    )


def _metrics(whose: str) -> Option:
    return Option("--print-metrics", is_flag=True, help=f"print the {whose}'s metrics as well")


def _kafkas_options(client: str) -> list[Option]:
    """Kafka's names for -X and --command-config."""
    return [
        Option(
            f"--{client}-props",
            metavar="NAME=VALUE",
            multiple=True,
            is_greedy=True,
            into="client_options",
            help="the same as -X",
        ),
        Option(
            f"--{client}.config",
            f"{client}_config",
            metavar="FILE",
            type=FILE,
            into="command_config",
            help="the same as --command-config",
        ),
    ]


_PRODUCE: Final = Command(
    "produce",
    "measure sending",
    "perf.produce:produce",
    [
        *_topic(),
        _count(1_000_000),
        *_payloads(),
        _throughput(),
        _warmup(),
        _metrics("producer"),
        *_kafkas_options("producer"),
        form(),
        *connection(),
    ],
    description=_PRODUCE_TEXT,
    epilog=examples("ottla perf produce orders --num-records 1000000 --record-size 100"),
)
_CONSUME: Final = Command(
    "consume",
    "measure reading",
    "perf.consume:consume",
    [
        *_topic(),
        Option(
            "--messages",
            "--num-records",
            "messages",
            metavar="N",
            type=count_from(1),
            required=True,
            help="how many records to read",
        ),
        Option("--group", metavar="GROUP", type=GROUP, help="default: a new one"),
        Option("--from-latest", is_flag=True, help="begin at the end and not at the beginning"),
        Option(
            "--fetch-size",
            metavar="BYTES",
            type=count_from(1),
            help="how much to fetch of a partition at once; default: 1048576",
        ),
        Option(
            "--idle",
            metavar="SECONDS",
            type=seconds,
            default=10.0,
            help="give up when no record comes for so long; default: 10",
        ),
        Option(
            "--show-detailed-stats",
            is_flag=True,
            help="print a line for each interval instead of one for all",
        ),
        Option(
            "--reporting-interval",
            metavar="MS",
            type=count_from(1),
            default=5000,
            help="the interval in milliseconds; default: 5000",
        ),
        Option("--hide-header", is_flag=True, help="print no names of columns"),
        _metrics("consumer"),
        *_kafkas_options("consumer"),
        form(),
        *connection(),
    ],
    description=_CONSUME_TEXT,
    epilog=examples("ottla perf consume orders --messages 1000000"),
)
_LATENCY: Final = Command(
    "latency",
    "measure from send to receipt",
    "perf.latency:latency",
    [
        *_topic(),
        _count(10_000),
        _size(),
        Option("--acks", type=Choice("1", "all"), default="all", help="default: all"),
        _warmup(),
        form(),
        *connection(),
    ],
    description=_LATENCY_TEXT,
    epilog=examples("ottla perf latency orders --num-records 10000 --record-size 100"),
)
_TRANSACTIONS: Final = Command(
    "transactions",
    "measure transactions",
    "perf.transactions:transactions",
    [
        *_topic(),
        _count(100_000),
        *_payloads(),
        Option(
            "--transaction-size",
            metavar="N",
            type=count_from(1),
            help="records in a transaction; default: 100, unless the duration is given",
        ),
        Option(
            "--transaction-duration-ms",
            metavar="MS",
            type=count_from(1),
            help="commit when a transaction is so old, in milliseconds",
        ),
        Option("--producers", metavar="N", type=count_from(1), default=1, help="default: 1"),
        Option(
            "--transactional-id",
            metavar="ID",
            type=TRANSACTIONAL_ID,
            help="the ids are ID-0, ID-1 and so on; default: new ones",
        ),
        _throughput(),
        _warmup(),
        *_kafkas_options("producer"),
        form(),
        *connection(),
    ],
    description=_TRANSACTIONS_TEXT,
    epilog=examples("ottla perf transactions orders --num-records 100000 --transaction-size 100"),
)

COMMAND: Final = Group("perf", SUMMARIES["perf"], [_PRODUCE, _CONSUME, _LATENCY, _TRANSACTIONS])
