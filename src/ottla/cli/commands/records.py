"""`ottla records`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.parameters import FILE, connection, dry_run, examples
from ottla.cli.commands.syntax import Argument, Command, Group, Option

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
            metavar="TOPIC:PARTITION:OFFSET",
            nargs=-1,
            help="the first offset of a partition that stays",
        ),
        Option(
            "--offset-json-file",
            metavar="FILE",
            type=FILE,
            help="the same as Kafka's JSON; - is stdin",
        ),
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
