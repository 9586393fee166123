"""`ottla produce`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.escapes import separator, unescaped
from ottla.cli.commands.options import Argument, Choice, Flag, Option, section
from ottla.cli.commands.shared_options import (
    FILE,
    TOPIC,
    TRANSACTIONAL_ID,
    connection,
    count_from,
    settings,
)
from ottla.cli.commands.syntax import Command

_DESCRIPTION: Final = """\
Send records: each line of stdin is the value of one.

With FILEs each file is one record, or with -l each of their lines. With --format json each line is an object with
key, value, headers, partition and timestamp, as `ottla consume -o json` writes them; only value has to be there, and
{"base64": "…"} stands for bytes that are no text.
With --transactional-id everything is one transaction, which is committed at the end of the input and aborted if
anything fails, or by Ctrl-C.
"""
_EPILOG: Final = """\
examples:
  echo 'table 4:tea' | ottla produce orders --key-separator :
  ottla produce orders -H source=till --compression zstd < orders.txt
  ottla consume orders --exit -o json | ottla produce copies --format json --transactional-id copier
"""


def _input() -> list[Option]:
    return section(
        "what is read",
        [
            Flag("-l --lines", "each line of the FILEs"),
            Option("--format", "default: text", type=Choice("text", "json"), default="text"),
            Option(
                "-D --delimiter",
                r"what ends a record; default: \n or \r\n",
                metavar="TEXT",
                type=separator,
            ),
            Option(
                "-K --key-separator",
                "what is between key and value; every line has to have it",
                metavar="TEXT",
                type=separator,
            ),
            Option(
                "--headers-separator",
                "lines begin with headers, NAME:VALUE,NAME:VALUE, and this",
                metavar="TEXT",
                type=separator,
            ),
            Option(
                "--null-marker",
                "a key, value or header that is this text is absent",
                metavar="TEXT",
                type=unescaped,
            ),
            Flag("-Z --null-if-empty", "what is empty is absent", const=b"", into="null_marker"),
        ],
    )


def _sending() -> list[Option]:
    return section(
        "what is sent, and how",
        [
            Option("-k --key", "the key of all", metavar="KEY", type=unescaped),
            Option(
                "-p --partition",
                "where all go; -1: where the key says, whatever JSON says",
                type=count_from(-1),
            ),
            settings("-H --header headers", "a header of all; repeatable"),
            Option(
                "-z --compression --compression-codec compression",
                "none, gzip, snappy, lz4 or zstd; default: none",
                metavar="CODEC",
            ),
            Option("--acks", "who has to have them: all, 1 or 0; default: all", metavar="N"),
            Option(
                "--transactional-id",
                "send in a transaction, under this name",
                metavar="ID",
                type=TRANSACTIONAL_ID,
            ),
            Option(
                "--transaction-size",
                "a transaction for every N records, instead of one for all",
                type=count_from(1),
            ),
            Flag(
                "--print-offsets",
                "print topic, partition and offset of each record, with tabs between them",
            ),
            Flag("-q --quiet", "no summary, no progress"),
        ],
    )


COMMAND: Final = Command(
    "produce",
    SUMMARIES["produce"],
    "records.produce:run",
    [
        Argument("topic", "where they go", required=False, type=TOPIC),
        Argument("files", "instead of stdin; - is stdin", nargs=-1, type=FILE),
        Option("-t --topic named_topic", "the same, as Kafka's tools have it", type=TOPIC),
        *_input(),
        *_sending(),
        *connection(),
    ],
    description=_DESCRIPTION,
    epilog=_EPILOG,
)
