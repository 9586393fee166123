"""`ottla produce`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ottla.cli.commands.escapes import separator, unescaped
from ottla.cli.commands.parameters import add_settings, add_verb, count_from

if TYPE_CHECKING:
    from ottla.cli.commands.parameters import Commands

DESCRIPTION = """\
Send records: each line of stdin is the value of one.

With FILEs each file is one record, or with -l each of their lines. With --format json each line is an object with
key, value, headers, partition and timestamp, as `ottla consume -o json` writes them; only value has to be there, and
{"base64": "…"} stands for bytes that are no text.
With --transactional-id everything is one transaction, which is committed at the end of the input and aborted if
anything fails, or by Ctrl-C.
"""
EPILOG = """\
examples:
  echo 'table 4:tea' | ottla produce orders --key-separator :
  ottla produce orders -H source=till --compression zstd < orders.txt
  ottla consume orders --exit -o json | ottla produce copies --format json --transactional-id copier
"""


def add(commands: Commands) -> None:
    """The command and its arguments."""
    verb = add_verb(
        commands, "produce", "send lines as records", "records.produce:run", DESCRIPTION
    )
    verb.epilog = EPILOG
    verb.add_argument("topic", nargs="?", metavar="TOPIC")
    verb.add_argument("files", nargs="*", metavar="FILE", help="instead of stdin; - is stdin")
    verb.add_argument(
        *("-t", "--topic"),
        metavar="TOPIC",
        dest="named_topic",
        help="the same, as Kafka's tools have it",
    )
    _add_input(verb)
    _add_sending(verb)


def _add_input(verb: argparse.ArgumentParser) -> None:
    reading = verb.add_argument_group("what is read")
    reading.add_argument("-l", "--lines", action="store_true", help="each line of the FILEs")
    reading.add_argument(
        "--format", choices=("text", "json"), default="text", help="default: %(default)s"
    )
    reading.add_argument(
        *("-D", "--delimiter"),
        type=separator,
        metavar="TEXT",
        help=r"what ends a record; default: \n or \r\n",
    )
    reading.add_argument(
        *("-K", "--key-separator"),
        type=separator,
        metavar="TEXT",
        help="what is between key and value; every line has to have it",
    )
    reading.add_argument(
        "--headers-separator",
        type=separator,
        metavar="TEXT",
        help="lines begin with headers, NAME:VALUE,NAME:VALUE, and this",
    )
    reading.add_argument(
        "--null-marker",
        type=unescaped,
        metavar="TEXT",
        help="a key, value or header that is this text is absent",
    )
    reading.add_argument(
        *("-Z", "--null-if-empty"),
        action="store_const",
        const=b"",
        dest="null_marker",
        help="what is empty is absent",
    )


def _add_sending(verb: argparse.ArgumentParser) -> None:
    sending = verb.add_argument_group("what is sent, and how")
    sending.add_argument("-k", "--key", type=unescaped, metavar="KEY", help="the key of all")
    sending.add_argument(
        *("-p", "--partition"),
        type=count_from(-1),
        metavar="N",
        help="where all go; -1: where the key says, whatever JSON says",
    )
    add_settings(sending, "-H", "--header", dest="headers", help_text="a header of all; repeatable")
    sending.add_argument(
        *("-z", "--compression", "--compression-codec"),
        metavar="CODEC",
        help="none, gzip, snappy, lz4 or zstd; default: none",
    )
    sending.add_argument(
        "--acks", metavar="N", help="who has to have them: all, 1 or 0; default: all"
    )
    sending.add_argument(
        "--transactional-id", metavar="ID", help="send in a transaction, under this name"
    )
    sending.add_argument(
        "--transaction-size",
        type=count_from(1),
        metavar="N",
        help="a transaction for every N records, instead of one for all",
    )
    sending.add_argument(
        "--print-offsets",
        action="store_true",
        help="print topic, partition and offset of each record, with tabs between them",
    )
    sending.add_argument("-q", "--quiet", action="store_true", help="no summary, no progress")
