"""`ottla console`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Flag, Option
from ottla.cli.commands.shared_options import connection, examples
from ottla.cli.commands.syntax import Command

DEFAULT_LISTEN: Final = "127.0.0.1:8080"

_DESCRIPTION: Final = """\
Serves a web page that shows a Kafka cluster: topics, records, groups and their rebalances, transactions, schemas. When
it can be opened, `console at http://HOST:PORT` is printed; the log goes to stderr. It needs ottla[console].
"""

COMMAND: Final = Command(
    "console",
    SUMMARIES["console"],
    "console.run:run",
    [
        Option(
            "--listen",
            f"where browsers find it; https://HOST:PORT with TLS; default: {DEFAULT_LISTEN}; port 0 picks one",
            metavar="HOST:PORT",
            default=DEFAULT_LISTEN,
        ),
        Flag("--read-only", "refuse every change"),
        Option("--registry", "a schema registry, for records with schemas", metavar="URL"),
        Option(
            "--internals",
            "the metrics address of an Ottla broker, for its log and its loop",
            metavar="URL",
        ),
        *connection(),
    ],
    description=_DESCRIPTION,
    epilog=examples("ottla console", "ottla console -b kafka-1:9092 --read-only"),
)
