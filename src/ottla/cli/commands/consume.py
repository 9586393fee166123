"""`ottla consume`."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.escapes import unescaped
from ottla.cli.commands.parameters import GROUP, ISOLATION, TOPIC, connection, count_from
from ottla.cli.commands.syntax import Argument, Choice, Command, Exclusive, Option

_DESCRIPTION: Final = """\
Print the records of topics: the value of each on a line, or what -f or -o json say.

Reading begins at the end and goes on until Ctrl-C, as with Kafka's console consumer; with --exit it begins at the
start and stops at what was the end when it began. What cannot be a topic's name is a pattern for whole names.
The records of __consumer_offsets and __transaction_state are decoded, unless --raw is given.
"""
_EPILOG: Final = """\
FORMAT, as kcat has it: %t topic, %p partition, %o offset, %k key, %s value, %T timestamp in ms, %h headers,
%K and %S sizes of key and value (-1: none), %R size of the value as 4 bytes, %% a percent sign; \\n \\t \\xNN.

examples:
  ottla consume orders --from-beginning -f '%p:%o %k = %s\\n'
  ottla consume orders --exit -o json | jq .value
  ottla consume orders --since 10m --until 5m
  ottla consume 'orders-.*' --group checkers --isolation read_committed
"""
_STARTS: Final = {
    "beginning": "earliest",
    "earliest": "earliest",
    "end": "latest",
    "latest": "latest",
}


def _start(text: str) -> str | int:
    if text in _STARTS:
        return _STARTS[text]
    try:
        return int(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is neither an offset nor earliest, latest or -N"
        ) from None


def _range() -> list[Option]:
    section = "where to begin and to end"
    start, end = Exclusive(), Exclusive()
    return [
        Option(
            "--from-beginning",
            const="earliest",
            into="start",
            among=start,
            section=section,
            help="begin with the first record; with --group, if the group has committed nothing",
        ),
        Option(
            "--offset",
            metavar="OFFSET",
            type=_start,
            into="start",
            among=start,
            section=section,
            help="begin at: an offset, earliest, latest, or -N: the last N offsets of each partition",
        ),
        Option(
            "--since",
            metavar="TIME",
            among=start,
            section=section,
            help="begin at a time: 2026-11-15T17:00:00 (UTC, or with a zone), 10m (ago), ms since 1970",
        ),
        Option(
            "--until",
            metavar="TIME",
            section=section,
            help="stop before the first record of this time or later, or at the end; implies --exit",
        ),
        Option(
            "--follow",
            const=False,
            into="exit",
            among=end,
            section=section,
            help="wait for more records until Ctrl-C; this is the default",
        ),
        Option(
            "-e",
            "--exit",
            const=True,
            into="exit",
            among=end,
            section=section,
            help="stop at the end as it is now; begins at the start unless told otherwise",
        ),
        Option(
            "-c",
            "--max-messages",
            metavar="N",
            type=count_from(1),
            section=section,
            help="stop after N records",
        ),
        Option(
            "--timeout-ms",
            metavar="MS",
            type=count_from(1),
            section=section,
            help="stop when no record came for so long",
        ),
    ]


def _forms() -> list[Option]:
    section = "what is printed"
    return [
        Option("-f", "--format", metavar="FORMAT", section=section, help="see below"),
        Option(
            "-o",
            "--output",
            "form",
            type=Choice("text", "json"),
            default="text",
            section=section,
            help="json: lines",
        ),
        Option("-J", const="json", into="form", section=section, help="the same as -o json"),
        Option(
            "-K",
            "--key-separator",
            metavar="TEXT",
            type=unescaped,
            section=section,
            help="print keys too, with this behind them",
        ),
        Option(
            "-D",
            "--delimiter",
            metavar="TEXT",
            type=unescaped,
            section=section,
            help=r"what follows each record; default: \n",
        ),
        Option(
            "--null-marker",
            metavar="TEXT",
            type=unescaped,
            section=section,
            help="what is printed for an absent key or value; default: null, or nothing with -f",
        ),
        *(
            Option(
                f"--{what}-deserializer",
                metavar="NAME",
                section=section,
                help=f"what the {what} is: bytes, string, int, long, short, float, double, boolean, uuid, json",
            )
            for what in ("key", "value")
        ),
        Option("--raw", is_flag=True, section=section, help="do not decode internal topics"),
        Option(
            "--show-control",
            is_flag=True,
            section=section,
            help="print also the markers that end transactions",
        ),
        Option(
            "--show-aborted",
            is_flag=True,
            section=section,
            help="print records of aborted transactions marked as such; records of open ones come when they end",
        ),
        Option("-q", "--quiet", is_flag=True, section=section, help="no summary at the end"),
    ]


COMMAND: Final = Command(
    "consume",
    SUMMARIES["consume"],
    "records.consume:run",
    [
        Argument(
            "topics",
            metavar="TOPIC",
            nargs=-1,
            type=TOPIC,
            help="topics, or patterns for their names",
        ),
        Option(
            "-t",
            "--topic",
            "more_topics",
            metavar="TOPIC",
            type=TOPIC,
            multiple=True,
            hidden=True,
            help="the same",
        ),
        Option(
            "-p",
            "--partition",
            "partitions",
            metavar="N",
            type=count_from(0),
            multiple=True,
            help="only this partition; repeatable",
        ),
        Option(
            "-g",
            "--group",
            metavar="GROUP",
            type=GROUP,
            help="read as a member of this group: go on where it is, and commit what was printed",
        ),
        Option(
            "--isolation",
            "--isolation-level",
            "isolation",
            type=ISOLATION,
            help="read_committed leaves out aborted transactions and waits for open ones; "
            "default: read_uncommitted",
        ),
        *_range(),
        *_forms(),
        *connection(),
    ],
    description=_DESCRIPTION,
    epilog=_EPILOG,
)
