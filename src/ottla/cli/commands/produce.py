"""`ottla produce`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.escapes import separator, unescaped
from ottla.cli.commands.parameters import (
    FILE,
    TOPIC,
    TRANSACTIONAL_ID,
    connection,
    count_from,
    settings,
)
from ottla.cli.commands.syntax import Argument, Choice, Command, Option

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
    section = "what is read"
    return [
        Option("-l", "--lines", is_flag=True, section=section, help="each line of the FILEs"),
        Option(
            "--format",
            type=Choice("text", "json"),
            default="text",
            section=section,
            help="default: text",
        ),
        Option(
            "-D",
            "--delimiter",
            metavar="TEXT",
            type=separator,
            section=section,
            help=r"what ends a record; default: \n or \r\n",
        ),
        Option(
            "-K",
            "--key-separator",
            metavar="TEXT",
            type=separator,
            section=section,
            help="what is between key and value; every line has to have it",
        ),
        Option(
            "--headers-separator",
            metavar="TEXT",
            type=separator,
            section=section,
            help="lines begin with headers, NAME:VALUE,NAME:VALUE, and this",
        ),
        Option(
            "--null-marker",
            metavar="TEXT",
            type=unescaped,
            section=section,
            help="a key, value or header that is this text is absent",
        ),
        Option(
            "-Z",
            "--null-if-empty",
            const=b"",
            into="null_marker",
            section=section,
            help="what is empty is absent",
        ),
    ]


def _sending() -> list[Option]:
    section = "what is sent, and how"
    return [
        Option(
            "-k", "--key", metavar="KEY", type=unescaped, section=section, help="the key of all"
        ),
        Option(
            "-p",
            "--partition",
            metavar="N",
            type=count_from(-1),
            section=section,
            help="where all go; -1: where the key says, whatever JSON says",
        ),
        settings(
            "-H", "--header", "headers", section=section, help_text="a header of all; repeatable"
        ),
        Option(
            "-z",
            "--compression",
            "--compression-codec",
            "compression",
            metavar="CODEC",
            section=section,
            help="none, gzip, snappy, lz4 or zstd; default: none",
        ),
        Option(
            "--acks",
            metavar="N",
            section=section,
            help="who has to have them: all, 1 or 0; default: all",
        ),
        Option(
            "--transactional-id",
            metavar="ID",
            type=TRANSACTIONAL_ID,
            section=section,
            help="send in a transaction, under this name",
        ),
        Option(
            "--transaction-size",
            metavar="N",
            type=count_from(1),
            section=section,
            help="a transaction for every N records, instead of one for all",
        ),
        Option(
            "--print-offsets",
            is_flag=True,
            section=section,
            help="print topic, partition and offset of each record, with tabs between them",
        ),
        Option("-q", "--quiet", is_flag=True, section=section, help="no summary, no progress"),
    ]


COMMAND: Final = Command(
    "produce",
    SUMMARIES["produce"],
    "records.produce:run",
    [
        Argument("topic", metavar="TOPIC", required=False, type=TOPIC, help="where they go"),
        Argument("files", metavar="FILE", nargs=-1, type=FILE, help="instead of stdin; - is stdin"),
        Option(
            "-t",
            "--topic",
            "named_topic",
            metavar="TOPIC",
            type=TOPIC,
            help="the same, as Kafka's tools have it",
        ),
        *_input(),
        *_sending(),
        *connection(),
    ],
    description=_DESCRIPTION,
    epilog=_EPILOG,
)
