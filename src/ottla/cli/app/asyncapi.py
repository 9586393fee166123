"""`ottla app asyncapi`: the document of an app, without a broker."""

from __future__ import annotations

from ottla.cli.app.run import load_app
from ottla.cli.commands.syntax import Arguments
from ottla.cli.exit_codes import DONE
from ottla.cli.terminal.output import Output


def print_document(arguments: Arguments) -> int:
    """Print the document as YAML or JSON."""
    Output(arguments.form).data(load_app(arguments.program).asyncapi())
    return DONE
