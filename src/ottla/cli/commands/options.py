"""Options, flags and arguments of commands: click's, with what our declarations need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    ValueType = click.ParamType[Any]
else:  # older versions of click do not say what is converted to
    ValueType = click.ParamType

OPTIONS: Final = "options"


class Exclusive:
    """Options of which a line may have only one."""

    def __init__(self, *, is_required: bool) -> None:
        self.is_required = is_required


class Option(click.Option):
    """An option of a command, declared as `-p --partitions`; a third word is the name of its argument.

    `into` names an argument that several options share. One that is greedy takes all values that follow.
    """

    def __init__(
        self,
        flags: str,
        help: str,
        *,
        into: str | None = None,
        is_greedy: bool = False,
        **attributes: Any,
    ) -> None:
        super().__init__(flags.split(), help=help, **attributes)
        self.into = into
        self.const: object = None
        self.is_greedy = is_greedy
        self.section = OPTIONS
        self.among: Exclusive | None = None
        self.has_optional_value = not self.is_flag and "flag_value" in attributes

    @property
    def needs_value(self) -> bool:
        """Whether the word behind it is its value."""
        return not self.is_flag and not self.has_optional_value

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Where the value may be left out, what follows is the next argument."""
        if self.has_optional_value:
            for parameter in ctx.command.params:
                if isinstance(parameter, click.Argument):
                    return parameter.shell_complete(ctx, incomplete)
        return super().shell_complete(ctx, incomplete)


class Flag(Option):
    """An option without a value; with `const` it puts that `into` an argument."""

    def __init__(self, flags: str, help: str, *, const: object = None, **attributes: Any) -> None:
        super().__init__(flags, help, is_flag=True, **attributes)
        self.const = const


def section(heading: str, options: list[Option]) -> list[Option]:
    """Options under a heading of their own in help."""
    for option in options:
        option.section = heading
    return options


def exclusive(*options: Option, is_required: bool = False) -> tuple[Option, ...]:
    """Options of which a line may have only one."""
    group = Exclusive(is_required=is_required)
    for option in options:
        option.among = group
    return options


class Argument(click.Argument):
    """A word that is told by its place; with `nargs=-1` as many as there are."""

    def __init__(self, name: str, help: str = "", **attributes: Any) -> None:
        super().__init__([name], **attributes)
        self.help = help

    @property
    def human_readable_name(self) -> str:
        """As help and errors show it."""
        return self.metavar or self.type.name.upper()

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        """What only programs give is not shown."""
        return [self.make_metavar(ctx)] if self.help else []

    def make_metavar(self, ctx: click.Context | None = None) -> str:
        """As usage shows it."""
        name = self.human_readable_name
        if self.nargs == -1:
            return f"[{name}]..."
        return name if self.required else f"[{name}]"


class Choice(ValueType):
    """One of several words; some may be known to programs only."""

    name = "choice"

    def __init__(self, *words: str, hidden: str | None = None) -> None:
        self.words = words
        self._hidden = hidden

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """As help shows it."""
        return f"{{{','.join(self.words)}}}"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """Takes one of the words."""
        if value not in (*self.words, self._hidden):
            self.fail(f"{value!r} is none of {', '.join(self.words)}", param, ctx)
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        """The words."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in self.words if word.startswith(incomplete)]
