"""`ottla perf`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.escapes import separator
from ottla.cli.commands.parameters import add_form, add_group, add_verb, count_from, seconds

if TYPE_CHECKING:
    from ottla.cli.commands.parameters import Commands

RECORD_BYTES: Final = 100
_PRODUCE: Final = """\
Sends records and prints the summary line of kafka-producer-perf-test. The latency of a record is the time from the call
that sends it to its acknowledgement. Options of the producer go with -X, as -X acks=1 -X linger.ms=0."""
_CONSUME: Final = """\
Reads records and prints the lines of kafka-consumer-perf-test. Options of the consumer go with -X."""
_LATENCY: Final = """\
Sends one record after the other, reads each back before it sends the next, and prints what Kafka's EndToEndLatency
prints. The topic is made if it is not there."""
_TRANSACTIONS: Final = """\
Writes transactions, one after the other by each producer, and prints how many were committed per second and how long
the commits took."""


def add(commands: Commands) -> None:
    """The command, its verbs and their arguments."""
    verbs = add_group(commands, "perf", "measure how fast a cluster is")
    _add_produce(verbs)
    _add_consume(verbs)
    _add_latency(verbs)
    _add_transactions(verbs)


def _add_produce(verbs: Commands) -> None:
    produce = add_verb(verbs, "produce", "measure sending", "perf.produce:produce", _PRODUCE)
    produce.epilog = "example: ottla perf produce orders --num-records 1000000 --record-size 100"
    _add_topic(produce)
    _add_count(produce, 1_000_000)
    _add_payloads(produce)
    _add_throughput(produce)
    _add_warmup(produce)
    produce.add_argument(
        "--print-metrics", action="store_true", help="print the producer's metrics as well"
    )
    _add_kafkas_options(produce, "--producer-props", "--producer.config")
    add_form(produce)


def _add_consume(verbs: Commands) -> None:
    consume = add_verb(verbs, "consume", "measure reading", "perf.consume:consume", _CONSUME)
    consume.epilog = "example: ottla perf consume orders --messages 1000000"
    _add_topic(consume)
    consume.add_argument(
        "--messages",
        "--num-records",
        metavar="N",
        type=count_from(1),
        required=True,
        help="how many records to read",
    )
    consume.add_argument("--group", metavar="GROUP", help="default: a new one")
    consume.add_argument(
        "--from-latest", action="store_true", help="begin at the end and not at the beginning"
    )
    consume.add_argument(
        "--fetch-size",
        metavar="BYTES",
        type=count_from(1),
        help="how much to fetch of a partition at once; default: 1048576",
    )
    consume.add_argument(
        "--idle",
        metavar="SECONDS",
        type=seconds,
        default=10.0,
        help="give up when no record comes for so long; default: 10",
    )
    consume.add_argument(
        "--show-detailed-stats",
        action="store_true",
        help="print a line for each interval instead of one for all",
    )
    consume.add_argument(
        "--reporting-interval",
        metavar="MS",
        type=count_from(1),
        default=5000,
        help="the interval in milliseconds; default: %(default)s",
    )
    consume.add_argument("--hide-header", action="store_true", help="print no names of columns")
    consume.add_argument(
        "--print-metrics", action="store_true", help="print the consumer's metrics as well"
    )
    _add_kafkas_options(consume, "--consumer-props", "--consumer.config")
    add_form(consume)


def _add_latency(verbs: Commands) -> None:
    latency = add_verb(
        verbs, "latency", "measure from send to receipt", "perf.latency:latency", _LATENCY
    )
    latency.epilog = "example: ottla perf latency orders --num-records 10000 --record-size 100"
    _add_topic(latency)
    _add_count(latency, 10_000)
    _add_size(latency)
    latency.add_argument("--acks", choices=("1", "all"), default="all", help="default: %(default)s")
    _add_warmup(latency)
    add_form(latency)


def _add_transactions(verbs: Commands) -> None:
    transactions = add_verb(
        verbs,
        "transactions",
        "measure transactions",
        "perf.transactions:transactions",
        _TRANSACTIONS,
    )
    transactions.epilog = (
        "example: ottla perf transactions orders --num-records 100000 --transaction-size 100"
    )
    _add_topic(transactions)
    _add_count(transactions, 100_000)
    _add_payloads(transactions)
    transactions.add_argument(
        "--transaction-size",
        metavar="N",
        type=count_from(1),
        help="records in a transaction; default: 100, unless the duration is given",
    )
    transactions.add_argument(
        "--transaction-duration-ms",
        metavar="MS",
        type=count_from(1),
        help="commit when a transaction is so old, in milliseconds",
    )
    transactions.add_argument(
        "--producers", metavar="N", type=count_from(1), default=1, help="default: %(default)s"
    )
    transactions.add_argument(
        "--transactional-id",
        metavar="ID",
        help="the ids are ID-0, ID-1 and so on; default: new ones",
    )
    _add_throughput(transactions)
    _add_warmup(transactions)
    _add_kafkas_options(transactions, "--producer-props", "--producer.config")
    add_form(transactions)


def _add_topic(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", metavar="TOPIC", nargs="*", help="the topic")
    parser.add_argument("--topic", metavar="TOPIC", help="the same")


def _add_count(parser: argparse.ArgumentParser, default: int) -> None:
    parser.add_argument(
        "--num-records",
        metavar="N",
        type=count_from(1),
        default=default,
        help="how many records to send; default: %(default)s",
    )


def _add_size(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--record-size",
        metavar="BYTES",
        type=count_from(1),
        help=f"the size of their values; default: {RECORD_BYTES}",
    )


def _add_payloads(parser: argparse.ArgumentParser) -> None:
    payloads = parser.add_mutually_exclusive_group()
    _add_size(payloads)
    payloads.add_argument(
        "--payload-file", metavar="FILE", help="take values from a file, in any order"
    )
    payloads.add_argument(
        "--payload-monotonic", action="store_true", help="values are numbers from 0 on"
    )
    parser.add_argument(
        "--payload-delimiter",
        type=separator,
        metavar="TEXT",
        help="what stands between the values of the file, with \\n, \\t, \\xNN; default: \\n",
    )


def _add_throughput(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--throughput",
        metavar="RECORDS",
        type=float,
        default=-1,
        help="send at most so many records in a second; default: as many as possible",
    )


def _add_warmup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--warmup",
        "--warmup-records",
        metavar="N",
        type=count_from(0),
        default=0,
        help="send so many records before what is measured; default: %(default)s",
    )


def _add_kafkas_options(parser: argparse.ArgumentParser, settings: str, file: str) -> None:
    """Kafka's names for -X and --command-config."""
    parser.add_argument(
        settings,
        metavar="NAME=VALUE",
        nargs="+",
        action="extend",
        dest="client_options",
        help="the same as -X",
    )
    parser.add_argument(
        file, metavar="FILE", dest="command_config", help="the same as --command-config"
    )
