"""`ottla consume`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ottla.cli.commands.escapes import unescaped
from ottla.cli.commands.parameters import add_verb, count_from

if TYPE_CHECKING:
    from ottla.cli.commands.parameters import Commands

DESCRIPTION = """\
Print the records of topics: the value of each on a line, or what -f or -o json say.

Reading begins at the end and goes on until Ctrl-C, as with Kafka's console consumer; with --exit it begins at the
start and stops at what was the end when it began. What cannot be a topic's name is a pattern for whole names.
The records of __consumer_offsets and __transaction_state are decoded, unless --raw is given.
"""
EPILOG = """\
FORMAT, as kcat has it: %t topic, %p partition, %o offset, %k key, %s value, %T timestamp in ms, %h headers,
%K and %S sizes of key and value (-1: none), %R size of the value as 4 bytes, %% a percent sign; \\n \\t \\xNN.

examples:
  ottla consume orders --from-beginning -f '%p:%o %k = %s\\n'
  ottla consume orders --exit -o json | jq .value
  ottla consume orders --since 10m --until 5m
  ottla consume 'orders-.*' --group checkers --isolation read_committed
"""


def add(commands: Commands) -> None:
    """The command and its arguments."""
    verb = add_verb(
        commands, "consume", "print records of topics", "records.consume:run", DESCRIPTION
    )
    verb.epilog = EPILOG
    verb.add_argument(
        "topics", nargs="*", metavar="TOPIC", help="topics, or patterns for their names"
    )
    verb.add_argument(
        "-t", "--topic", action="append", default=[], dest="more_topics", help=argparse.SUPPRESS
    )
    verb.add_argument(
        *("-p", "--partition"),
        action="append",
        type=count_from(0),
        default=[],
        dest="partitions",
        metavar="N",
        help="only this partition; repeatable",
    )
    verb.add_argument(
        *("-g", "--group"),
        metavar="GROUP",
        help="read as a member of this group: go on where it is, and commit what was printed",
    )
    verb.add_argument(
        *("--isolation", "--isolation-level"),
        choices=("read_uncommitted", "read_committed"),
        help="read_committed leaves out aborted transactions and waits for open ones; default: read_uncommitted",
    )
    _add_range(verb)
    _add_forms(verb)


def _add_range(verb: argparse.ArgumentParser) -> None:
    where = verb.add_argument_group("where to begin and to end")
    start = where.add_mutually_exclusive_group()
    start.add_argument(
        "--from-beginning",
        action="store_const",
        const="earliest",
        dest="start",
        help="begin with the first record; with --group, if the group has committed nothing",
    )
    start.add_argument(
        "--offset",
        type=_start,
        dest="start",
        metavar="OFFSET",
        help="begin at: an offset, earliest, latest, or -N: the last N offsets of each partition",
    )
    start.add_argument(
        "--since",
        metavar="TIME",
        help="begin at a time: 2026-11-15T17:00:00 (UTC, or with a zone), 10m (ago), ms since 1970",
    )
    where.add_argument(
        "--until",
        metavar="TIME",
        help="stop before the first record of this time or later, or at the end; implies --exit",
    )
    ends = where.add_mutually_exclusive_group()
    ends.add_argument(
        "--follow",
        action="store_false",
        dest="exit",
        default=None,
        help="wait for more records until Ctrl-C; this is the default",
    )
    ends.add_argument(
        "-e",
        "--exit",
        action="store_true",
        default=None,
        help="stop at the end as it is now; begins at the start unless told otherwise",
    )
    where.add_argument(
        "-c", "--max-messages", type=count_from(1), metavar="N", help="stop after N records"
    )
    where.add_argument(
        "--timeout-ms",
        type=count_from(1),
        metavar="MS",
        help="stop when no record came for so long",
    )


def _add_forms(verb: argparse.ArgumentParser) -> None:
    forms = verb.add_argument_group("what is printed")
    forms.add_argument("-f", "--format", metavar="FORMAT", help="see below")
    forms.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", dest="form", help="json: lines"
    )
    forms.add_argument(
        "-J", action="store_const", const="json", dest="form", help="the same as -o json"
    )
    forms.add_argument(
        *("-K", "--key-separator"),
        type=unescaped,
        metavar="TEXT",
        help="print keys too, with this behind them",
    )
    forms.add_argument(
        *("-D", "--delimiter"),
        type=unescaped,
        metavar="TEXT",
        help=r"what follows each record; default: \n",
    )
    forms.add_argument(
        "--null-marker",
        type=unescaped,
        metavar="TEXT",
        help="what is printed for an absent key or value; default: null, or nothing with -f",
    )
    for what in ("key", "value"):
        forms.add_argument(
            f"--{what}-deserializer",
            metavar="NAME",
            help=f"what the {what} is: bytes, string, int, long, short, float, double, boolean, uuid, json",
        )
    forms.add_argument("--raw", action="store_true", help="do not decode internal topics")
    forms.add_argument(
        "--show-control",
        action="store_true",
        help="print also the markers that end transactions",
    )
    forms.add_argument(
        "--show-aborted",
        action="store_true",
        help="print records of aborted transactions marked as such; records of open ones come when they end",
    )
    forms.add_argument("-q", "--quiet", action="store_true", help="no summary at the end")


def _start(text: str) -> str | int:
    names = {"beginning": "earliest", "earliest": "earliest", "end": "latest", "latest": "latest"}
    if text in names:
        return names[text]
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither an offset nor earliest, latest or -N"
        ) from None
