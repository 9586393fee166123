"""`ottla storage`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Argument, Flag, Option
from ottla.cli.commands.shared_options import examples
from ottla.cli.commands.syntax import Command, Group

_TEXT: Final = """\
A shared storage is a schema of a PostgreSQL database, and perhaps a bucket of an S3-compatible store for large data.
Any number of brokers serve it: `ottla serve --storage URL [--objects URL]`.
"""
_STORAGE: Final = "postgresql://ottla@db1/ottla"
_OBJECTS: Final = "s3://bucket/prefix?region=eu-central-1"


def _urls() -> list[Option]:
    return [
        Option(
            "--storage",
            "the database, as in postgresql://user@host/database?schema=ottla; @FILE reads the URL from a file; "
            "default: $OTTLA_STORAGE",
            metavar="URL",
        ),
        Option(
            "--objects",
            "the bucket, as in s3://bucket/prefix?region=…; without it, and without $OTTLA_OBJECTS, the database has "
            "everything; @FILE reads the URL from a file",
            metavar="URL",
        ),
    ]


def _role() -> Option:
    return Option(
        "--broker-role",
        "a role of the database that brokers log in as: it may call the functions of the schema and read its tables, "
        "and nothing else; without it brokers log in as the owner",
        metavar="ROLE",
    )


_INIT: Final = Command(
    "init",
    "make the storage of a new cluster",
    "storage.administration:init",
    [*_urls(), _role()],
    description=f"Makes the schema, and marks the bucket as that of the cluster.\n\n{_TEXT}",
    epilog=examples(
        f"ottla storage init --storage {_STORAGE}",
        f"ottla storage init --storage {_STORAGE} --objects '{_OBJECTS}' --broker-role broker",
    ),
)
_UPGRADE: Final = Command(
    "upgrade",
    "bring a storage to the version of this Ottla",
    "storage.administration:upgrade",
    [*_urls(), _role()],
    description="Brings the schema to the version of this Ottla, in one transaction. Stop all brokers before.\n\n"
    + _TEXT,
    epilog=examples(f"ottla storage upgrade --storage {_STORAGE}"),
)

_CHECK: Final = Command(
    "check",
    "compare the bucket with what the database knows",
    "storage.administration:check",
    [
        *_urls(),
        Flag("--read", "also read every object that batches refer to, and verify its bytes"),
    ],
    description="Compares the objects that the bucket lists with those that the database knows.\n"
    "Prints each difference; brokers may be running. The exit code is 1 if there are differences.\n\n"
    + _TEXT,
    epilog=examples(f"ottla storage check --storage {_STORAGE} --objects '{_OBJECTS}' --read"),
)
_IMPORT: Final = Command(
    "import",
    "copy a data folder into a new storage",
    "storage.administration:import_data",
    [
        Argument("folder", "the data folder, which no broker may be using", metavar="DIR"),
        *_urls(),
    ],
    description="Copies the topics, records, committed offsets, transactions, users and options of a folder that\n"
    "`ottla serve --data DIR` has written, with workers or without. Offsets, leader epochs and producer ids stay the\n"
    "same, and every checksum is verified. The storage must be new (`ottla storage init`), its brokers stopped. An\n"
    "import that was stopped goes on where it was when the command is run again; until it is done no broker starts.\n"
    "The folder keeps its data. If workers have served it, their partitions are moved together, as by a start of\n"
    "`ottla serve` without --workers.\n\n" + _TEXT,
    epilog=examples(f"ottla storage import ottla-data --storage {_STORAGE} --objects '{_OBJECTS}'"),
)

COMMAND: Final = Group("storage", SUMMARIES["storage"], [_INIT, _UPGRADE, _CHECK, _IMPORT])
