"""`ottla pipeline`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.parameters import FILE
from ottla.cli.commands.syntax import Argument, Command, Group, Option

_RUN: Final = Command(
    "run",
    "run a program that makes a Pipeline",
    "pipeline:run",
    [
        Argument(
            "program",
            metavar="FILE_OR_MODULE",
            type=FILE,
            help="a Python file or module that makes a Pipeline; with several, FILE:NAME says which variable; "
            "what follows -- is for the program",
        ),
        Option("-b", "--bootstrap-server", metavar="HOST:PORT", help="where the broker is"),
        Option(
            "--master",
            metavar="URL",
            help="where Spark runs, as spark://HOST:PORT; default: local[*]",
        ),
        Option(
            "--conf",
            "settings",
            metavar="NAME=VALUE",
            multiple=True,
            help="a setting of Spark; repeatable",
        ),
        Option("-v", "--verbose", is_flag=True, help="log more"),
    ],
    description="Runs a pipeline, and begins again after failures that may pass, until SIGTERM or Ctrl-C.",
    rest="of_program",
)

COMMAND: Final = Group("pipeline", SUMMARIES["pipeline"], [_RUN])
