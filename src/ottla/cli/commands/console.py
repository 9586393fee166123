"""`ottla console`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Flag, Option, exclusive, section
from ottla.cli.commands.shared_options import FILE, connection, examples
from ottla.cli.commands.syntax import Command

DEFAULT_LISTEN: Final = "127.0.0.1:8080"

_DESCRIPTION: Final = """\
Serves a web page that shows a Kafka cluster: topics, records, groups and their rebalances, transactions, schemas. When
it can be opened, `console at http://HOST:PORT` is printed; the log goes to stderr. It needs ottla[console].

Where the cluster asks for passwords (security.protocol is SASL_SSL or SASL_PLAINTEXT), so does the console: users log
in by their names in the cluster, and its ACLs decide what they may do. Without a login the console serves only this
machine. The guide "The console" says more.
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
        Option(
            "--certificate",
            "for https://…: a PEM file with the private key and its certificates",
            type=FILE,
        ),
        *exclusive(
            Option(
                "--login",
                "tokens by which users and programs log in: ROLE TOKEN on a line, with the role viewer, operator or "
                "admin",
                type=FILE,
            ),
            Flag(
                "--open is_open",
                "no login: everybody who reaches the console has its rights in the cluster",
            ),
        ),
        Flag("--read-only", "refuse every change"),
        Option(
            "--allowed-host allowed_hosts",
            "a further name by which browsers call the console; repeatable",
            metavar="NAME",
            multiple=True,
        ),
        Flag(
            "--behind-proxy",
            "believe the headers X-Forwarded-For, -Host and -Proto: only where a proxy sets them",
        ),
        *section(
            "more to show",
            [
                Option("--registry", "a schema registry, for records with schemas", metavar="URL"),
                Option(
                    "--registry-config",
                    "options of the registry's client, as a properties file: basic.auth.user.info, …",
                    type=FILE,
                ),
                Option(
                    "--internals",
                    "the metrics address of an Ottla broker, for its log and its loop",
                    metavar="URL",
                ),
                Option(
                    "--internals-config",
                    "the same for --internals: basic.auth.user.info or bearer.auth.token, ssl.truststore.location",
                    type=FILE,
                ),
            ],
        ),
        *connection(),
    ],
    description=_DESCRIPTION,
    epilog=examples(
        "ottla console",
        "ottla console -b kafka-1:9092 --read-only",
        "ottla console --listen https://0.0.0.0:8443 --certificate console.pem --command-config client.properties",
    ),
)
