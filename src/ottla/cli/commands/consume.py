"""`ottla consume`."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.escapes import unescaped
from ottla.cli.commands.options import Argument, Choice, Flag, Option, exclusive, section
from ottla.cli.commands.shared_options import GROUP, TOPIC, connection, count_from, isolation
from ottla.cli.commands.syntax import Command

_DESCRIPTION: Final = """\
Print the records of topics: each value on a line, or in the format of -f or -o json.

Reading begins at the end and goes on until Ctrl-C, as with Kafka's console consumer; with --exit it begins at the
first record and stops at the end that it found when it started. A word that cannot be a topic's name is a pattern for
whole names.
The records of __consumer_offsets and __transaction_state are decoded, unless --raw is given.
"""
_EPILOG: Final = """\
FORMAT, as in kcat: %t topic, %p partition, %o offset, %k key, %s value, %T timestamp in ms, %h headers,
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
    return section(
        "range",
        [
            *exclusive(
                Flag(
                    "--from-beginning",
                    "begin with the first record; with --group, if the group has committed nothing",
                    const="earliest",
                    into="start",
                ),
                Option(
                    "--offset",
                    "begin at: an offset, earliest, latest, or -N: the last N offsets of each partition",
                    metavar="OFFSET",
                    type=_start,
                    into="start",
                ),
                Option(
                    "--since",
                    "begin at a time: 2026-11-15T17:00:00 (UTC, or with a zone), 10m (ago), ms since 1970",
                    metavar="TIME",
                ),
            ),
            Option(
                "--until",
                "stop before the first record of this time or later, or at the end; implies --exit",
                metavar="TIME",
            ),
            *exclusive(
                Flag(
                    "--follow",
                    "wait for more records until Ctrl-C; this is the default",
                    const=False,
                    into="exit",
                ),
                Flag(
                    "-e --exit",
                    "stop at the current end; begins at the first record by default",
                    const=True,
                    into="exit",
                ),
            ),
            Option("-c --max-messages", "stop after N records", type=count_from(1)),
            Option(
                "--timeout-ms",
                "stop after MS milliseconds without a record",
                metavar="MS",
                type=count_from(1),
            ),
        ],
    )


def _forms() -> list[Option]:
    return section(
        "output",
        [
            Option("-f --format", "see below", metavar="FORMAT"),
            Option(
                "-o --output form",
                "json: a line of JSON per record",
                type=Choice("text", "json"),
                default="text",
            ),
            Flag("-J", "the same as -o json", const="json", into="form"),
            Option(
                "-K --key-separator",
                "also print keys, followed by this text",
                metavar="TEXT",
                type=unescaped,
            ),
            Option(
                "-D --delimiter",
                r"text after each record; default: \n",
                metavar="TEXT",
                type=unescaped,
            ),
            Option(
                "--null-marker",
                "text for an absent key or value; default: null, or nothing with -f",
                metavar="TEXT",
                type=unescaped,
            ),
            *(
                Option(
                    f"--{what}-deserializer",
                    f"type of the {what}: bytes, string, int, long, short, float, double, boolean, uuid, json",
                    metavar="NAME",
                )
                for what in ("key", "value")
            ),
            Flag("--raw", "do not decode internal topics"),
            Flag("--show-control", "also print the markers that end transactions"),
            Flag(
                "--show-aborted",
                "print records of aborted transactions marked as such; records of open ones come when they end",
            ),
            Flag("-q --quiet", "no summary at the end"),
        ],
    )


COMMAND: Final = Command(
    "consume",
    SUMMARIES["consume"],
    "records.consume:run",
    [
        Argument("topics", "topics, or patterns for their names", nargs=-1, type=TOPIC),
        Option("-t --topic more_topics", "the same", type=TOPIC, multiple=True, hidden=True),
        Option(
            "-p --partition partitions",
            "only this partition; repeatable",
            type=count_from(0),
            multiple=True,
        ),
        Option(
            "-g --group",
            "read as a member of this group, from its committed offsets, and commit what was printed",
            type=GROUP,
        ),
        isolation(
            "read_committed leaves out aborted transactions and waits for open ones; "
            "default: read_uncommitted",
            default=None,
        ),
        *_range(),
        *_forms(),
        *connection(),
    ],
    description=_DESCRIPTION,
    epilog=_EPILOG,
)
