"""`ottla log`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Argument, Flag, Option, exclusive
from ottla.cli.commands.shared_options import FILE, count_from, examples, form
from ottla.cli.commands.syntax import Command, Group

_DESCRIPTION: Final = """\
Prints what is in the files of a partition, in the words of kafka-dump-log, and checks them: sizes, checksums, the order
of offsets, and whether the indexes agree with the segments. Damage is reported on stderr, with exit code 1.
Nothing is changed, and a broker may be running. It reads the folders of Apache Kafka as well.

A folder stands for all files of a partition, or of all partitions of a data folder. With -o json there is one object
per line."""

_DUMP: Final = Command(
    "dump",
    "print and check segments, indexes and snapshots",
    "log.dump:dump",
    [
        Argument("files", "a file, a partition's folder, or the data folder", nargs=-1, type=FILE),
        Option(
            "--files more_files",
            "files with commas, as kafka-dump-log takes them",
            metavar="FILE,…",
        ),
        Flag(
            "--records --print-data-log records",
            "print the records of segments with keys and values",
        ),
        Flag("--headers", "as --records, and their headers with values"),
        Flag("--deep-iteration", "print the records without their content"),
        Flag("--skip-record-metadata", "as --records, but only keys and values"),
        *exclusive(
            Flag(
                "--decode",
                "read the records of __consumer_offsets and __transaction_state, which folders name",
                const="by_folder",
                into="decoder",
            ),
            Flag(
                "--offsets-decoder",
                "read records as those of __consumer_offsets",
                const="__consumer_offsets",
                into="decoder",
            ),
            Flag(
                "--transaction-log-decoder",
                "read records as those of __transaction_state",
                const="__transaction_state",
                into="decoder",
            ),
        ),
        Option(
            "--max-bytes", "read at most BYTES of each segment", metavar="BYTES", type=count_from(1)
        ),
        Flag("--verify-index-only", "check indexes without printing them"),
        Flag("--verify-only", "check everything, with one line for each file"),
        form(),
        Flag("-v --verbose", "show where an error comes from"),
    ],
    description=_DESCRIPTION,
    epilog=examples(
        "ottla log dump ottla-data/orders-0 --verify-only",
        "ottla log dump ottla-data/orders-0/00000000000000000000.log --records",
        "ottla log dump ottla-data/__consumer_offsets-12 --decode -o json",
    ),
)

COMMAND: Final = Group("log", SUMMARIES["log"], [_DUMP])
