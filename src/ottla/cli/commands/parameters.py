"""Options that several commands have, and the kinds of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from ottla.cli.commands.syntax import Argument, Arguments, Choice, Option, ValueType
from ottla.config.default_cluster import DEFAULT_SERVERS, SERVERS_VARIABLE

ISOLATION: Final = Choice("read_uncommitted", "read_committed")
PATTERN: Final = "a name, or a regular expression for whole names"


# -- values


class File(ValueType):
    """A file, which the shell completes."""

    name = "file"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        """Whatever the shell finds."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class ClusterName(ValueType):
    """The name of something that the cluster knows, which it is asked for."""

    name = "text"

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        """The names that begin so."""
        from click.shell_completion import CompletionItem

        from ottla.cli.completion import cluster_names

        names = cluster_names.find(self.kind, connection_of(ctx.params))
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


FILE: Final = File()
TOPIC: Final = ClusterName("TOPIC")
GROUP: Final = ClusterName("GROUP")
TRANSACTIONAL_ID: Final = ClusterName("TRANSACTIONAL-ID")


def name_and_value(text: str) -> tuple[str, str]:
    """NAME=VALUE."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise click.BadParameter(f"{text!r} is not NAME=VALUE")
    return name.strip(), value


def seconds(text: str) -> float:
    """A time in seconds, which must be positive."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < 1e9:
        raise click.BadParameter(f"{text!r} is not a number of seconds above 0")
    return number


def whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a whole number") from None


def count_from(least: int) -> Callable[[str], int]:
    """Reads a number that is not smaller."""

    def count(text: str) -> int:
        number = whole(text)
        if number < least:
            raise click.BadParameter(f"{text} is less than {least}")
        return number

    return count


# -- options


def connection() -> list[Option]:
    """Where the cluster is and how to talk to it."""
    section = "connection"
    return [
        Option(
            "-b",
            "--bootstrap-server",
            metavar="HOST:PORT",
            section=section,
            help=f"a broker, or several with commas; default: ${SERVERS_VARIABLE} or {DEFAULT_SERVERS}",
        ),
        Option(
            "--command-config",
            metavar="FILE",
            type=FILE,
            section=section,
            help="options of the client, as a Kafka properties file",
        ),
        Option(
            "-X",
            "client_options",
            metavar="NAME=VALUE",
            multiple=True,
            section=section,
            help="an option of the client by Kafka's name; repeatable",
        ),
        Option(
            "--timeout",
            metavar="SECONDS",
            type=seconds,
            section=section,
            help="how long to try before giving up; default: 10",
        ),
        Option(
            "-v",
            "--verbose",
            is_flag=True,
            section=section,
            help="log more, and show where an error comes from",
        ),
    ]


def connection_of(given: Mapping[str, Any]) -> Arguments:
    """Where the cluster is, as far as a line said it."""
    return Arguments(
        bootstrap_server=given.get("bootstrap_server"),
        command_config=given.get("command_config"),
        client_options=[*(given.get("client_options") or ())],
        timeout=None,
        verbose=False,
    )


def topics(help_text: str) -> list[Argument | Option]:
    """Topics by name or pattern, as words or in Kafka's way; both end up in `topics`."""
    return [
        Argument("topics", metavar="TOPIC", nargs=-1, type=TOPIC, help=help_text),
        Option(
            "-t",
            "--topic",
            metavar="TOPIC",
            type=TOPIC,
            multiple=True,
            into="topics",
            help="the same, as Kafka's tools have it; repeatable",
        ),
    ]


def form() -> Option:
    """How what is listed is written."""
    return Option(
        "-o",
        "--output",
        "form",
        type=Choice("table", "json", "yaml"),
        default="table",
        help="default: table",
    )


def watch() -> Option:
    """Again and again."""
    return Option(
        "--watch",
        metavar="SECONDS",
        type=seconds,
        is_flag=False,
        flag_value="2",
        help="do it again every SECONDS, until Ctrl-C; default: 2",
    )


def settings(*declarations: str, help_text: str, **attributes: Any) -> Option:
    """A repeatable NAME=VALUE."""
    return Option(
        *declarations,
        metavar="NAME=VALUE",
        type=name_and_value,
        multiple=True,
        help=help_text,
        **attributes,
    )


def dry_run(help_text: str = "say what would happen, and change nothing") -> Option:
    """Nothing but words."""
    return Option("--dry-run", is_flag=True, help=help_text)


def examples(*lines: str) -> str:
    """What one would type, at the end of the help."""
    head = "example:" if len(lines) == 1 else "examples:"
    return "\n  ".join([head, *lines])
