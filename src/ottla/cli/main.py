"""The `ottla` command: its arguments, and the way to the command that does the work."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.version import VERSION

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

DONE, FAILED, USAGE = 0, 1, 2
INTERRUPTED = 130


def _count_from(least: int) -> Callable[[str], int]:
    """Reads a number that is not smaller."""

    def count(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return number

    return count


def _or(given: int | None, default: int) -> int:
    return default if given is None else given


def parser() -> argparse.ArgumentParser:
    """Everything that can be typed."""
    top = argparse.ArgumentParser(
        prog="ottla", description="Exactly-once event streaming for Python and Spark."
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")

    serve = commands.add_parser(
        "serve", help="run a broker", description="Runs a broker until SIGTERM or Ctrl-C."
    )
    serve.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:9092",
        help="default: %(default)s; port 0 picks one",
    )
    serve.add_argument(
        "--advertise",
        metavar="HOST:PORT",
        help="what clients are told to connect to; default: the address that they used",
    )
    where = serve.add_mutually_exclusive_group()
    where.add_argument("--data", metavar="DIR", default="./ottla-data", help="default: %(default)s")
    where.add_argument(
        "--ephemeral",
        action="store_true",
        help="keep everything in memory, up to ottla.ephemeral.max.bytes",
    )
    serve.add_argument("--config", metavar="FILE", help="options as a Kafka properties file")
    serve.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="options",
        help="an option by Kafka's name; repeatable",
    )
    serve.add_argument("-v", "--verbose", action="store_true", help="log more")

    _add_pipeline(commands)
    _add_demo(commands)
    return top


def _add_pipeline(commands: Commands) -> None:
    pipeline = commands.add_parser(
        "pipeline", help="run exactly-once pipelines on Spark", description="Pipelines on Spark."
    )
    verbs = pipeline.add_subparsers(dest="verb", metavar="VERB", required=True)
    run = verbs.add_parser(
        "run",
        help="run a program that makes a Pipeline",
        description="Runs a pipeline, and begins again after failures that may pass, until SIGTERM or Ctrl-C.",
    )
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


def _add_demo(commands: Commands) -> None:
    demo = commands.add_parser(
        "demo",
        help="see for yourself that nothing is lost or duplicated",
        description="Runs a broker and kills something again and again: the driver of an exactly-once Spark "
        "pipeline, or the broker itself. Then reads everything back and counts.",
    )
    demo.add_argument(
        "what",
        nargs="?",
        choices=["pipeline", "broker"],
        default="pipeline",
        help="what is killed; default: %(default)s",
    )
    demo.add_argument(
        "--records",
        type=_count_from(1),
        metavar="N",
        help="how many records; default: 100000 through the pipeline, 200000 to the broker",
    )
    demo.add_argument(
        "--kills",
        type=_count_from(0),
        metavar="N",
        help="how many kill -9; default: 1 of the pipeline, 5 of the broker",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    of_program: list[str] = []
    if given[:2] == ["pipeline", "run"] and "--" in given:
        at = given.index("--")
        given, of_program = given[:at], given[at + 1 :]
    arguments = parser().parse_args(given)
    if arguments.version:
        print(f"ottla {VERSION}")
        return DONE
    if arguments.command is None:
        parser().print_help(sys.stderr)
        return USAGE
    from ottla.errors import ConfigError, OttlaError

    try:
        if arguments.command == "serve":
            from ottla.cli.serve import serve

            return serve(arguments)
        if arguments.command == "pipeline":
            from ottla.cli.pipeline import run

            return run(arguments, of_program)
        if arguments.what == "broker":
            from ottla.cli.broker_demo import broker_demo

            return broker_demo(arguments.records or 200_000, _or(arguments.kills, 5))
        from ottla.cli.demo import demo

        return demo(arguments.records or 100_000, _or(arguments.kills, 1))
    except ConfigError as error:
        print(f"ottla: {error}", file=sys.stderr)
        return USAGE
    except (OttlaError, OSError) as error:
        print(f"ottla: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
