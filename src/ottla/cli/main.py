"""The entry point of the `ottla` command: parses the line, calls the function for it, returns an exit code."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

import click

from ottla.cli.commands.root import ROOT, parse
from ottla.cli.commands.syntax import Arguments, Call, usage_error_text
from ottla.cli.exit_codes import DONE, FAILED, INTERRUPTED, PIPE_CLOSED, USAGE
from ottla.version import VERSION

Work = Callable[[Arguments], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    _open_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        # Characters that the encoding lacks, as on an ASCII terminal, are printed as `\\u2026`.
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _main(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe. The rest of the buffer must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED


def _open_standard_streams() -> None:
    """Open closed standard streams (`>&-`) on /dev/null, so that no other file or socket gets their numbers."""
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
    if not given:
        print(click.Context(ROOT, info_name="ottla").get_help(), file=sys.stderr)
        return USAGE
    call = _parse(given)
    return _run(_load(call.work), call.arguments)


def _parse(given: list[str]) -> Call:
    """Parse the words; ends the process after --help or a usage error."""
    if given[0] == "help":
        given = [*given[1:], "--help"]
    elif given == ["version"]:
        given = ["--version"]
    try:
        return parse(given)
    except click.exceptions.Exit as ended:
        sys.stdout.flush()  # of --help: a closed pipe raises here and not at exit
        sys.exit(ended.exit_code)
    except click.UsageError as error:
        _print_usage_error(error)
        sys.exit(USAGE)


def _print_usage_error(error: click.UsageError) -> None:
    """Print the usage and the error in one line."""
    ctx = error.ctx or click.Context(ROOT, info_name="ottla")
    name = ctx.command_path
    print(ctx.get_usage(), file=sys.stderr)
    print(f"{name}: {usage_error_text(error)} ({name} --help explains)", file=sys.stderr)


def _load(name: str) -> Work:
    module, _, function = name.partition(":")
    # What stands above the command line in the layers, as the test kit does, is named in full.
    full = module if module.startswith("ottla.") else f"ottla.cli.{module}"
    found: Work = getattr(import_module(full), function)
    return found


def _run(function: Work, arguments: Arguments) -> int:
    from ottla.cli.errors import UsageError, line_of
    from ottla.errors import ConfigError, OttlaError

    if "client_options" in arguments:
        # Commands without a client, such as serve, set up logging themselves.
        from ottla.cli.connection import log_to_stderr

        log_to_stderr(arguments)
    try:
        return function(arguments)
    except BrokenPipeError:
        raise
    except (OttlaError, OSError) as error:
        _print_error(arguments, line_of(error))
        return USAGE if isinstance(error, (ConfigError, UsageError)) else FAILED
    except Exception as error:
        _print_error(
            arguments, f"{type(error).__name__}: {line_of(error)}: this is a bug, -v shows where"
        )
        return FAILED


def _print_error(arguments: Arguments, line: str) -> None:
    """Print the error, with -v after its traceback."""
    if getattr(arguments, "verbose", False):
        import traceback

        traceback.print_exc()
    print(f"ottla: {line}", file=sys.stderr)


def print_version(arguments: Arguments) -> int:
    """`ottla --version`."""
    print(f"ottla {VERSION}")
    return DONE


if __name__ == "__main__":
    sys.exit(main())
