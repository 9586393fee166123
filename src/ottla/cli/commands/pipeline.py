"""`ottla pipeline`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cli.commands.parameters import add_group

if TYPE_CHECKING:
    from ottla.cli.commands.parameters import Commands


def add(commands: Commands) -> None:
    """The command, its verbs and their arguments."""
    verbs = add_group(commands, "pipeline", "run exactly-once pipelines on Spark")
    run = verbs.add_parser(
        "run",
        help="run a program that makes a Pipeline",
        description="Runs a pipeline, and begins again after failures that may pass, until SIGTERM or Ctrl-C.",
    )
    run.set_defaults(run="pipeline:run")
    run.add_argument(
        "program",
        metavar="FILE_OR_MODULE",
        help="a Python file or module that makes a Pipeline; with several, FILE:NAME says which variable; "
        "what follows -- is for the program",
    )
    run.add_argument("-b", "--bootstrap-server", metavar="HOST:PORT", help="where the broker is")
    run.add_argument(
        "--master", metavar="URL", help="where Spark runs, as spark://HOST:PORT; default: local[*]"
    )
    run.add_argument(
        "--conf",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="settings",
        help="a setting of Spark; repeatable",
    )
    run.add_argument("-v", "--verbose", action="store_true", help="log more")
