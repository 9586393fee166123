"""The `ottla` command itself, which imports the others when they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final

import click

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Flag
from ottla.cli.commands.syntax import Arguments, Call, Group

_EXAMPLES: Final = """\
`ottla help COMMAND` or `ottla COMMAND --help` explains a command. From nothing to a consumed record:

  ottla serve &
  ottla topics create orders --partitions 3
  echo 'one espresso' | ottla produce orders
  ottla consume orders --from-beginning --exit
"""


class _Root(Group):
    """The group of all commands; each is a module of this package."""

    noun = "command"

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of SUMMARIES."""
        return [*SUMMARIES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        if cmd_name not in SUMMARIES:
            return None
        command: click.Command = import_module(
            f"ottla.cli.commands.{cmd_name.replace('-', '_')}"
        ).COMMAND
        return command

    def summaries(self) -> Mapping[str, str]:
        """The summaries of the commands, without importing them."""
        return SUMMARIES

    def invoke(self, ctx: click.Context) -> Call:
        """The call that the line stands for; the caller runs it."""
        if ctx.params["version"]:
            return Call("main:print_version", Arguments())
        call: Call = super().invoke(ctx)
        return call


ROOT: Final = _Root(
    "ottla",
    "exactly-once event streaming for Python and Spark",
    params=[Flag("--version", "print the version and exit")],
    epilog=_EXAMPLES,
)


def parse(words: Sequence[str]) -> Call:
    """The call that the words of a line, without the name of the program, stand for."""
    with ROOT.make_context("ottla", [*words]) as ctx:
        call: Call = ROOT.invoke(ctx)
    return call
