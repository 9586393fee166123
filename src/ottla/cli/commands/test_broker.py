"""`ottla test-broker`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Choice, Flag, Option
from ottla.cli.commands.shared_options import count_from, examples
from ottla.cli.commands.syntax import Command

DEFAULT_ADDRESS: Final = "127.0.0.1:0"

_DESCRIPTION: Final = """\
Runs a broker for tests until SIGTERM or Ctrl-C, with its data in a temporary folder. It prints two lines:
`listening on HOST:PORT`, which is what clients want as bootstrap.servers, and `control on http://HOST:PORT`, where a
test in any language adds faults, moves the broker's clock and looks at records, groups and requests, as JSON over HTTP.
"""

COMMAND: Final = Command(
    "test-broker",
    SUMMARIES["test-broker"],
    "ottla.testing.control.command:run",
    [
        Option(
            "--listen",
            f"where clients connect; default: {DEFAULT_ADDRESS}, port 0 picks one",
            metavar="HOST:PORT",
            default=DEFAULT_ADDRESS,
        ),
        Option(
            "--control",
            f"where the control API is; default: {DEFAULT_ADDRESS}, port 0 picks one",
            metavar="HOST:PORT",
            default=DEFAULT_ADDRESS,
        ),
        Flag(
            "--allow-remote-control",
            "let --control be an address that other machines reach: it asks for no password",
        ),
        Option("--nodes", "how many nodes; default: 1", type=count_from(1), default=1),
        Option(
            "--set options",
            "an option of the broker by Kafka's name; repeatable",
            metavar="NAME=VALUE",
            multiple=True,
        ),
        Option(
            "--as-version",
            "serve the APIs and versions of an older release of Kafka, such as 3.6",
            metavar="VERSION",
        ),
        Option(
            "--security",
            "clients have to use TLS or to log in; GET /client-options of the control API has their options",
            type=Choice("plain", "scram", "tls", "mtls", "sasl-ssl"),
        ),
        Flag(
            "--stop-with-stdin", "stop when stdin ends, as it does when the test's process is gone"
        ),
        Option(
            "--log-level",
            "what is logged to stderr; default: error",
            type=Choice("debug", "info", "warning", "error"),
            default="error",
        ),
    ],
    description=_DESCRIPTION,
    epilog=examples(
        "ottla test-broker --set num.partitions=3",
        "ottla test-broker --listen 127.0.0.1:9092 --control 127.0.0.1:9093 --nodes 3",
    ),
)
