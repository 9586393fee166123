"""`ottla records`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Argument, Option
from ottla.cli.commands.shared_options import FILE, connection, dry_run, examples
from ottla.cli.commands.syntax import Command, Group

_DESCRIPTION: Final = """\
Deletes the records of partitions before an offset, at once and without asking; the offset -1 means all that are there.
Kafka's JSON is {"partitions": [{"topic": "orders", "partition": 0, "offset": 100}], "version": 1}"""

_DELETE: Final = Command(
    "delete",
    "delete the records before an offset",
    "records.deletion:delete",
    [
        Argument(
            "before",
            "the first offset of a partition that stays",
            metavar="TOPIC:PARTITION:OFFSET",
            nargs=-1,
        ),
        Option("--offset-json-file", "the same as Kafka's JSON; - is stdin", type=FILE),
        dry_run(),
        *connection(),
    ],
    description=_DESCRIPTION,
    epilog=examples(
        "ottla records delete orders:0:100 orders:1:-1",
        "ottla records delete --offset-json-file offsets.json",
    ),
)

COMMAND: Final = Group("records", SUMMARIES["records"], [_DELETE])
