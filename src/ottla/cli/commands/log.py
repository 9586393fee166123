"""`ottla log`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.parameters import FILE, count_from, examples, form
from ottla.cli.commands.syntax import Argument, Command, Exclusive, Group, Option

_DESCRIPTION: Final = """\
Prints what is in the files of a partition, in the words of kafka-dump-log, and checks them: sizes, checksums, the order
of offsets, and whether the indexes agree with the segments. Damage is told on stderr, and the exit code is 1 then.
Nothing is changed, and a broker may be running. It reads the folders of Apache Kafka as well.

A folder stands for all files of a partition, or of all partitions of a data folder. With -o json there is one object
per line."""
_DECODER: Final = Exclusive()

_DUMP: Final = Command(
    "dump",
    "print and check segments, indexes and snapshots",
    "log.dump:dump",
    [
        Argument(
            "files",
            metavar="FILE",
            nargs=-1,
            type=FILE,
            help="a file, or the folder of a partition or of all",
        ),
        Option(
            "--files",
            "more_files",
            metavar="FILE,…",
            help="files with commas, as kafka-dump-log takes them",
        ),
        Option(
            "--records",
            "--print-data-log",
            "records",
            is_flag=True,
            help="print the records of segments with keys and values",
        ),
        Option("--headers", is_flag=True, help="as --records, and their headers with values"),
        Option("--deep-iteration", is_flag=True, help="print the records without their content"),
        Option(
            "--skip-record-metadata", is_flag=True, help="as --records, but only keys and values"
        ),
        Option(
            "--decode",
            const="by_folder",
            into="decoder",
            among=_DECODER,
            help="read the records of __consumer_offsets and __transaction_state, which folders name",
        ),
        Option(
            "--offsets-decoder",
            const="__consumer_offsets",
            into="decoder",
            among=_DECODER,
            help="read records as those of __consumer_offsets",
        ),
        Option(
            "--transaction-log-decoder",
            const="__transaction_state",
            into="decoder",
            among=_DECODER,
            help="read records as those of __transaction_state",
        ),
        Option(
            "--max-bytes",
            metavar="BYTES",
            type=count_from(1),
            help="read only so much of each segment",
        ),
        Option("--verify-index-only", is_flag=True, help="check indexes without printing them"),
        Option("--verify-only", is_flag=True, help="check everything, with one line for each file"),
        form(),
        Option("-v", "--verbose", is_flag=True, help="show where an error comes from"),
    ],
    description=_DESCRIPTION,
    epilog=examples(
        "ottla log dump ottla-data/orders-0 --verify-only",
        "ottla log dump ottla-data/orders-0/00000000000000000000.log --records",
        "ottla log dump ottla-data/__consumer_offsets-12 --decode -o json",
    ),
)

COMMAND: Final = Group("log", SUMMARIES["log"], [_DUMP])
