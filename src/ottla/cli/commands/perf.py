"""`ottla perf`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.escapes import separator
from ottla.cli.commands.options import Argument, Choice, Flag, Option, exclusive
from ottla.cli.commands.shared_options import (
    FILE,
    GROUP,
    SECONDS,
    TOPIC,
    TRANSACTIONAL_ID,
    connection,
    count_from,
    examples,
    form,
)
from ottla.cli.commands.syntax import Command, Group

RECORD_BYTES: Final = 100
_PRODUCE_TEXT: Final = """\
Sends records and prints the summary line of kafka-producer-perf-test. The latency of a record is the time from the call
that sends it to its acknowledgement. Options of the producer go with -X, as -X acks=1 -X linger.ms=0."""
_CONSUME_TEXT: Final = """\
Reads records and prints the lines of kafka-consumer-perf-test. Options of the consumer go with -X."""
_LATENCY_TEXT: Final = """\
Sends one record after the other, reads each back before it sends the next, and prints what Kafka's EndToEndLatency
prints. Creates the topic if it does not exist."""
_TRANSACTIONS_TEXT: Final = """\
Writes transactions, one after the other by each producer, and prints how many were committed per second and how long
the commits took."""


def _topic() -> list[Argument | Option]:
    return [
        Argument("topics", "the topic", nargs=-1, type=TOPIC),
        Option("--topic", "the same", type=TOPIC),
    ]


def _count(default: int) -> Option:
    return Option(
        "--num-records",
        f"how many records to send; default: {default}",
        type=count_from(1),
        default=default,
    )


def _size() -> Option:
    return Option(
        "--record-size",
        f"the size of their values; default: {RECORD_BYTES}",
        metavar="BYTES",
        type=count_from(1),
    )


def _payloads() -> list[Option]:
    return [
        *exclusive(
            _size(),
            Option("--payload-file", "take values from a file, in any order", type=FILE),
            Flag("--payload-monotonic", "values are numbers from 0 on"),
        ),
        Option(
            "--payload-delimiter",
            "separator of the values in the file, with \\n, \\t, \\xNN; default: \\n",
            metavar="TEXT",
            type=separator,
        ),
    ]


def _throughput() -> Option:
    return Option(
        "--throughput",
        "limit of records per second; default: no limit",
        metavar="RECORDS",
        type=float,
        default=-1,
    )


def _warmup() -> Option:
    return Option(
        "--warmup --warmup-records warmup",
        "records to send before the measurement; default: 0",
        type=count_from(0),
        default=0,
    )


def _metrics(whose: str) -> Option:
    return Flag("--print-metrics", f"print the {whose}'s metrics as well")


def _kafkas_options(client: str) -> list[Option]:
    """Kafka's names for -X and --command-config."""
    return [
        Option(
            f"--{client}-props",
            "the same as -X",
            metavar="NAME=VALUE",
            multiple=True,
            is_greedy=True,
            into="client_options",
        ),
        Option(
            f"--{client}.config {client}_config",
            "the same as --command-config",
            type=FILE,
            into="command_config",
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
            "--messages --num-records messages",
            "how many records to read",
            type=count_from(1),
            required=True,
        ),
        Option("--group", "the consumer group; default: a new one", type=GROUP),
        Flag("--from-latest", "begin at the end and not at the beginning"),
        Option(
            "--fetch-size",
            "bytes to fetch from a partition at once; default: 1048576",
            metavar="BYTES",
            type=count_from(1),
        ),
        Option(
            "--idle",
            "give up after SECONDS without a record; default: 10",
            type=SECONDS,
            default=10.0,
        ),
        Flag("--show-detailed-stats", "print a line for each interval instead of one for all"),
        Option(
            "--reporting-interval",
            "the interval in milliseconds; default: 5000",
            metavar="MS",
            type=count_from(1),
            default=5000,
        ),
        Flag("--hide-header", "print no names of columns"),
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
        Option("--acks", "default: all", type=Choice("1", "all"), default="all"),
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
            "records in a transaction; default: 100, unless the duration is given",
            type=count_from(1),
        ),
        Option(
            "--transaction-duration-ms",
            "commit a transaction after MS milliseconds",
            metavar="MS",
            type=count_from(1),
        ),
        Option("--producers", "default: 1", type=count_from(1), default=1),
        Option(
            "--transactional-id",
            "the ids are ID-0, ID-1 and so on; default: new ones",
            metavar="ID",
            type=TRANSACTIONAL_ID,
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
