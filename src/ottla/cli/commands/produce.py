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
Send records: each line of stdin is the value of a record.

With FILEs each file is one record, or with -l each of their lines. With --format json each line is an object with
key, value, headers, partition and timestamp, as `ottla consume -o json` writes them; only value is required, and
{"base64": "…"} stands for bytes that are not UTF-8.
With --transactional-id all records are sent in one transaction, which is committed at the end of the input, and
aborted by an error or Ctrl-C.
"""
_EPILOG: Final = """\
examples:
  echo 'table 4:tea' | ottla produce orders --key-separator :
  ottla produce orders -H source=till --compression zstd < orders.txt
  ottla consume orders --exit -o json | ottla produce copies --format json --transactional-id copier
"""


def _input() -> list[Option]:
    return section(
        "input",
        [
            Flag("-l --lines", "each line of the FILEs is a record"),
            Option(
                "--format",
                "format of the input; default: text",
                type=Choice("text", "json"),
                default="text",
            ),
            Option(
                "-D --delimiter",
                r"text at the end of each record; default: \n or \r\n",
                metavar="TEXT",
                type=separator,
            ),
            Option(
                "-K --key-separator",
                "text between key and value, required in every line",
                metavar="TEXT",
                type=separator,
            ),
            Option(
                "--headers-separator",
                "lines begin with headers, NAME:VALUE,NAME:VALUE, and this text",
                metavar="TEXT",
                type=separator,
            ),
            Option(
                "--null-marker",
                "a key, value or header with this text is absent",
                metavar="TEXT",
                type=unescaped,
            ),
            Flag(
                "-Z --null-if-empty",
                "an empty key, value or header is absent",
                const=b"",
                into="null_marker",
            ),
        ],
    )


def _sending() -> list[Option]:
    return section(
        "records",
        [
            Option("-k --key", "the key of all records", metavar="KEY", type=unescaped),
            Option(
                "-p --partition",
                "the partition of all records; -1: chosen by the key, also if the JSON has one",
                type=count_from(-1),
            ),
            settings("-H --header headers", "a header of all records; repeatable"),
            Option(
                "-z --compression --compression-codec compression",
                "none, gzip, snappy, lz4 or zstd; default: none",
                metavar="CODEC",
            ),
            Option("--acks", "required acknowledgements: all, 1 or 0; default: all", metavar="N"),
            Option(
                "--transactional-id",
                "send in a transaction with this transactional id",
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
        Argument("topic", "the topic to send to", required=False, type=TOPIC),
        Argument("files", "files to read instead of stdin; - is stdin", nargs=-1, type=FILE),
        Option("-t --topic named_topic", "the same, as Kafka's tools have it", type=TOPIC),
        *_input(),
        *_sending(),
        *connection(),
    ],
    description=_DESCRIPTION,
    epilog=_EPILOG,
)
