"""The `ottla` command: its arguments, and the way to the function that does the work."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

from ottla.cli.commands.parser import Parser
from ottla.cli.exit_codes import DONE, FAILED, INTERRUPTED, PIPE_CLOSED, USAGE
from ottla.version import VERSION

_EXAMPLES: Final = """\
`ottla help COMMAND` or `ottla COMMAND --help` explains a command. From nothing to a consumed record:

  ottla serve &
  ottla topics create orders --partitions 3
  echo 'one espresso' | ottla produce orders
  ottla consume orders --from-beginning --exit
"""

# In the order in which help shows them; each is a module of `ottla.cli.syntax`.
COMMANDS: Final = (
    "serve",
    "topics",
    "produce",
    "consume",
    "groups",
    "transactions",
    "configs",
    "offsets",
    "records",
    "cluster",
    "log",
    "perf",
    "pipeline",
    "demo",
    "completion",
)


def parser() -> argparse.ArgumentParser:
    """Everything that can be typed."""
    top = Parser(
        prog="ottla",
        description="Exactly-once event streaming for Python and Spark.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    for name in COMMANDS:
        import_module(f"ottla.cli.commands.{name}").add(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit code."""
    _open_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        # What a terminal of ASCII lacks is shown as `\\u2026`, which is better than no help at all.
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _main(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough. What is left in the buffer must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED


def _open_standard_streams() -> None:
    """Whoever closed some of them (`>&-`) wants to see nothing; the next file or socket must not take their place."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            os.set_inheritable(number, True)
            stream = os.fdopen(number, mode, encoding="utf-8", closefd=False)
            setattr(sys, name, stream)


def _main(given: list[str]) -> int:
    given, of_program = _split(given)
    if given[:1] == ["help"]:
        given = [*given[1:], "--help"]
    elif given == ["version"]:
        given = ["--version"]
    top = parser()
    try:
        arguments = top.parse_args(given)
    except SystemExit:
        sys.stdout.flush()  # what --help printed: a closed pipe shows here and not at the end
        raise
    if arguments.version:
        print(f"ottla {VERSION}")
        return DONE
    if arguments.command is None:
        top.print_help(sys.stderr)
        return USAGE
    arguments.of_program = of_program
    return _run(_function(arguments.run), arguments)


def _split(given: list[str]) -> tuple[list[str], list[str]]:
    """What is ours, and what is for the program of a pipeline."""
    if given[:2] == ["pipeline", "run"] and "--" in given:
        at = given.index("--")
        return given[:at], given[at + 1 :]
    return given, []


def _function(name: str) -> Callable[[argparse.Namespace], int]:
    module, _, function = name.partition(":")
    found: Callable[[argparse.Namespace], int] = getattr(
        import_module(f"ottla.cli.{module}"), function
    )
    return found


def _run(function: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    from ottla.cli.errors import UsageError, line_of
    from ottla.errors import ConfigError, OttlaError

    if hasattr(arguments, "client_options"):
        # The others, such as serve, have logs of their own.
        from ottla.cli.connection import log_to_stderr

        log_to_stderr(arguments)
    try:
        return function(arguments)
    except BrokenPipeError:
        raise
    except (OttlaError, OSError) as error:
        _tell(arguments, line_of(error))
        return USAGE if isinstance(error, (ConfigError, UsageError)) else FAILED
    except Exception as error:
        _tell(arguments, f"{type(error).__name__}: {line_of(error)}: this is a bug, -v shows where")
        return FAILED


def _tell(arguments: argparse.Namespace, line: str) -> None:
    """What went wrong, and with -v where."""
    if getattr(arguments, "verbose", False):
        import traceback

        traceback.print_exc()
    print(f"ottla: {line}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
