"""`ottla log`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.parameters import add_form, add_group, count_from

if TYPE_CHECKING:
    from ottla.cli.commands.parameters import Commands

_DESCRIPTION: Final = """\
Prints what is in the files of a partition, in the words of kafka-dump-log, and checks them: sizes, checksums, the order
of offsets, and whether the indexes agree with the segments. Damage is told on stderr, and the exit code is 1 then.
Nothing is changed, and a broker may be running. It reads the folders of Apache Kafka as well.

A folder stands for all files of a partition, or of all partitions of a data folder. With -o json there is one object
per line."""
_EXAMPLES: Final = """\
examples:
  ottla log dump ottla-data/orders-0 --verify-only
  ottla log dump ottla-data/orders-0/00000000000000000000.log --records
  ottla log dump ottla-data/__consumer_offsets-12 --decode -o json"""


def add(commands: Commands) -> None:
    """The command, its verbs and their arguments."""
    verbs = add_group(commands, "log", "look into the files of a data folder")
    dump = verbs.add_parser(
        "dump",
        help="print and check segments, indexes and snapshots",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    dump.set_defaults(run="log.dump:dump")
    dump.add_argument(
        "files", metavar="FILE", nargs="*", help="a file, or the folder of a partition or of all"
    )
    dump.add_argument(
        "--files",
        metavar="FILE,…",
        dest="more_files",
        help="files with commas, as kafka-dump-log takes them",
    )
    dump.add_argument(
        "--records",
        "--print-data-log",
        action="store_true",
        help="print the records of segments with keys and values",
    )
    dump.add_argument(
        "--headers", action="store_true", help="as --records, and their headers with values"
    )
    dump.add_argument(
        "--deep-iteration", action="store_true", help="print the records without their content"
    )
    dump.add_argument(
        "--skip-record-metadata",
        action="store_true",
        help="as --records, but only keys and values",
    )
    _add_decoders(dump)
    dump.add_argument(
        "--max-bytes",
        metavar="BYTES",
        type=count_from(1),
        help="read only so much of each segment",
    )
    dump.add_argument(
        "--verify-index-only", action="store_true", help="check indexes without printing them"
    )
    dump.add_argument(
        "--verify-only", action="store_true", help="check everything, with one line for each file"
    )
    add_form(dump)
    dump.add_argument("-v", "--verbose", action="store_true", help="show where an error comes from")


def _add_decoders(dump: argparse.ArgumentParser) -> None:
    decoders = dump.add_mutually_exclusive_group()
    decoders.add_argument(
        "--decode",
        action="store_const",
        dest="decoder",
        const="by_folder",
        help="read the records of __consumer_offsets and __transaction_state, which folders name",
    )
    decoders.add_argument(
        "--offsets-decoder",
        action="store_const",
        dest="decoder",
        const="__consumer_offsets",
        help="read records as those of __consumer_offsets",
    )
    decoders.add_argument(
        "--transaction-log-decoder",
        action="store_const",
        dest="decoder",
        const="__transaction_state",
        help="read records as those of __transaction_state",
    )
