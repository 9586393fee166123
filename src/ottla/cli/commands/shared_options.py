"""Options that several commands have, and the types of their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from ottla.cli.commands.options import Argument, Choice, Flag, Option, ValueType, section
from ottla.cli.commands.syntax import Arguments
from ottla.config.default_cluster import DEFAULT_SERVERS, SERVERS_VARIABLE

PATTERN: Final = "a name, or a regular expression for whole names"


# Types of values


class File(ValueType):
    """A file name, which the shell completes."""

    name = "file"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        """Leave the completion to the shell."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class ClusterName(ValueType):
    """The name of a topic, group, transactional id or user, which is completed by asking the cluster."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.name = kind.lower()

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        """The names in the cluster that start with `incomplete`."""
        from click.shell_completion import CompletionItem

        from ottla.cli.completion import cluster_names

        names = cluster_names.find(self.kind, connection_of(ctx.params))
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


FILE: Final = File()
TOPIC: Final = ClusterName("TOPIC")
GROUP: Final = ClusterName("GROUP")
TRANSACTIONAL_ID: Final = ClusterName("TRANSACTIONAL-ID")
USER: Final = ClusterName("USER")
PRINCIPAL: Final = ClusterName("PRINCIPAL")


def name_and_value(text: str) -> tuple[str, str]:
    """Parse NAME=VALUE."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise click.BadParameter(f"{text!r} is not NAME=VALUE")
    return name.strip(), value


def seconds(text: str) -> float:
    """Parse a positive number of seconds."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < 1e9:
        raise click.BadParameter(f"{text!r} is not a number of seconds above 0")
    return number


def whole(text: str) -> int:
    """Parse a whole number."""
    try:
        return int(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a whole number") from None


def count_from(least: int) -> Value:
    """The type of whole numbers that are at least `least`."""

    def count(text: str) -> int:
        number = whole(text)
        if number < least:
            raise click.BadParameter(f"{text} is less than {least}")
        return number

    return Value("n", count)


class Value(ValueType):
    """A type with a parsing function; `name` is its placeholder in the help."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """Parse a word; a default that is not text stays."""
        return self._read(value) if isinstance(value, str) else value


SECONDS: Final = Value("seconds", seconds)
SETTING: Final = Value("name=value", name_and_value)


# Options


def connection() -> list[Option]:
    """The addresses of the cluster and the options of the client."""
    return section(
        "connection",
        [
            Option(
                "-b --bootstrap-server",
                f"a broker, or several with commas; default: ${SERVERS_VARIABLE} or {DEFAULT_SERVERS}",
                metavar="HOST:PORT",
            ),
            Option(
                "--command-config", "options of the client, as a Kafka properties file", type=FILE
            ),
            Option(
                "-X client_options",
                "an option of the client by Kafka's name; repeatable",
                metavar="NAME=VALUE",
                multiple=True,
            ),
            Option("--timeout", "how long to try before giving up; default: 10", type=SECONDS),
            Flag("-v --verbose", "log more, and show where an error comes from"),
        ],
    )


def connection_of(given: Mapping[str, Any]) -> Arguments:
    """The connection arguments of an unfinished line."""
    return Arguments(
        bootstrap_server=given.get("bootstrap_server"),
        command_config=given.get("command_config"),
        client_options=[*(given.get("client_options") or ())],
        timeout=None,
        verbose=False,
    )


def topics(help_text: str) -> list[Argument | Option]:
    """Topics by name or pattern, as arguments or with --topic as in Kafka's tools; both end up in `topics`."""
    return [
        Argument("topics", help_text, nargs=-1, type=TOPIC),
        Option(
            "-t --topic",
            "the same, as Kafka's tools have it; repeatable",
            type=TOPIC,
            multiple=True,
            into="topics",
        ),
    ]


def form() -> Option:
    """The output format of a listing."""
    return Option(
        "-o --output form", "default: table", type=Choice("table", "json", "yaml"), default="table"
    )


def watch() -> Option:
    """Repeat a listing."""
    return Option(
        "--watch",
        "repeat every SECONDS, until Ctrl-C; default: 2",
        type=SECONDS,
        is_flag=False,
        flag_value="2",
    )


def listing() -> list[Option]:
    """The options of all commands that list something."""
    return [form(), watch(), *connection()]


def isolation(help: str, default: str | None = "read_uncommitted") -> Option:
    """The isolation level."""
    levels = Choice("read_uncommitted", "read_committed")
    return Option("--isolation --isolation-level isolation", help, type=levels, default=default)


def settings(flags: str, help: str) -> Option:
    """A repeatable NAME=VALUE option."""
    return Option(flags, help, type=SETTING, multiple=True)


def dry_run(help_text: str = "show what would happen, and change nothing") -> Option:
    """Report what would happen without doing it."""
    return Flag("--dry-run", help_text)


def examples(*lines: str) -> str:
    """The examples at the end of the help."""
    head = "example:" if len(lines) == 1 else "examples:"
    return "\n  ".join([head, *lines])
