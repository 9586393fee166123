"""`ottla app run` and `ottla app asyncapi`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands.options import Argument, Choice, Flag, Option
from ottla.cli.commands.shared_options import FILE, count_from, examples
from ottla.cli.commands.syntax import Command

_RUN_TEXT: Final = """\
Runs the listeners of an App until SIGTERM or Ctrl-C. Then it takes no new records, lets handlers finish, commits and
leaves its groups; a second signal ends it at once. The log goes to stderr.

MODULE:NAME is the app: billing:app is the variable app in billing.py, of this folder or of an installed package.
"""
_PROGRAM_HELP: Final = "where the app is; without NAME, the only App of the module"

RUN: Final = Command(
    "run",
    "run the listeners of an app",
    "app.run:run",
    [
        Argument("program", _PROGRAM_HELP, metavar="MODULE:NAME"),
        Option(
            "--workers",
            "processes that share the work; those that die are restarted; default: 1",
            type=count_from(1),
            default="1",
        ),
        Flag("--reload", "restart when source files of the program change"),
        Option(
            "--health",
            "serve /healthz, /readyz and /metrics there; https://HOST:PORT with TLS; needs ottla[app]",
            metavar="HOST:PORT",
        ),
        Option(
            "--certificate",
            "for --health https://…: a PEM file with the private key and its certificates",
            type=FILE,
        ),
        Option(
            "--login",
            "/metrics needs a user or a token of this file: NAME:PASSWORD or a bearer token on a line",
            type=FILE,
        ),
        Option(
            "--drain-timeout",
            "how long handlers may take to finish after a signal; default: 30s",
            metavar="DURATION",
            default="30s",
        ),
        Option(
            "--stall-after",
            "tell that a handler runs longer than this; default: 30s",
            metavar="DURATION",
            default="30s",
        ),
        Option(
            "--log-format",
            "one line per event, or one JSON object; default: text",
            type=Choice("text", "json"),
            default="text",
        ),
        Option(
            "--log-level",
            "default: info",
            type=Choice("debug", "info", "warning", "error"),
            default="info",
        ),
    ],
    description=_RUN_TEXT,
    epilog=examples(
        "ottla app run billing:app",
        "ottla app run billing:app --workers 4 --health 0.0.0.0:8080",
        "ottla app run billing:app --reload",
    ),
)

ASYNCAPI: Final = Command(
    "asyncapi",
    "print the AsyncAPI document of an app",
    "app.asyncapi:print_document",
    [
        Argument("program", _PROGRAM_HELP, metavar="MODULE:NAME"),
        Option("-o --output form", "default: yaml", type=Choice("json", "yaml"), default="yaml"),
    ],
    description="Prints the topics, operations and messages of an App as an AsyncAPI 3 document; it asks no broker.",
    epilog=examples("ottla app asyncapi billing:app > asyncapi.yaml"),
)
