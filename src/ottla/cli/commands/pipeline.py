"""`ottla pipeline`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Argument, Flag, Option
from ottla.cli.commands.shared_options import FILE
from ottla.cli.commands.syntax import Command, Group

_RUN: Final = Command(
    "run",
    "run a program that makes a Pipeline",
    "pipeline:run",
    [
        Argument(
            "program",
            "a Python file or module that makes a Pipeline; with several, FILE:NAME says which variable; "
            "arguments after -- are passed to the program",
            metavar="FILE_OR_MODULE",
            type=FILE,
        ),
        Option("-b --bootstrap-server", "the address of a broker", metavar="HOST:PORT"),
        Option(
            "--master", "where Spark runs, as spark://HOST:PORT; default: local[*]", metavar="URL"
        ),
        Option(
            "--conf settings", "a setting of Spark; repeatable", metavar="NAME=VALUE", multiple=True
        ),
        Flag("-v --verbose", "log more"),
    ],
    description="Runs a pipeline, and restarts after transient failures, until SIGTERM or Ctrl-C.",
    rest="of_program",
)

COMMAND: Final = Group("pipeline", SUMMARIES["pipeline"], [_RUN])
