"""`ottla records`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cli.commands.parameters import add_examples, add_group, add_verb

if TYPE_CHECKING:
    from ottla.cli.commands.parameters import Commands


def add(commands: Commands) -> None:
    """The command, its verb and its arguments."""
    verbs = add_group(commands, "records", "delete records")
    delete = add_verb(
        verbs,
        "delete",
        "delete the records before an offset",
        "records.deletion:delete",
        "Deletes the records of partitions before an offset, at once and without asking; the offset -1\n"
        "means all that are there. Kafka's JSON is\n"
        '{"partitions": [{"topic": "orders", "partition": 0, "offset": 100}], "version": 1}',
    )
    delete.add_argument(
        "before",
        metavar="TOPIC:PARTITION:OFFSET",
        nargs="*",
        help="the first offset of a partition that stays",
    )
    delete.add_argument(
        "--offset-json-file", metavar="FILE", help="the same as Kafka's JSON; - is stdin"
    )
    delete.add_argument(
        "--dry-run", action="store_true", help="say what would happen, and change nothing"
    )
    add_examples(
        delete,
        "ottla records delete orders:0:100 orders:1:-1",
        "ottla records delete --offset-json-file offsets.json",
    )
