"""Options, flags and arguments on top of click, with sections of the help, exclusive groups and hidden words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    ValueType = click.ParamType[Any]
else:  # in older versions of click the class is not generic
    ValueType = click.ParamType

OPTIONS: Final = "options"


class Exclusive:
    """A group of options of which only one may be given."""

    def __init__(self, *, is_required: bool) -> None:
        self.is_required = is_required


class Option(click.Option):
    """An option of a command, declared as `-p --partitions`; a third word is the name of its argument.

    `into` names an argument that several options share. A greedy option takes all values that follow it.
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
        self.exclusive_group: Exclusive | None = None
        self.has_optional_value = not self.is_flag and "flag_value" in attributes

    @property
    def needs_value(self) -> bool:
        """Whether the next word is its value."""
        return not self.is_flag and not self.has_optional_value

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """The values; if the value is optional, the next word is taken for the next argument."""
        if self.has_optional_value:
            for parameter in ctx.command.params:
                if isinstance(parameter, click.Argument):
                    return parameter.shell_complete(ctx, incomplete)
        return super().shell_complete(ctx, incomplete)


class Flag(Option):
    """An option without a value; with `const` it stores that `into` an argument."""

    def __init__(self, flags: str, help: str, *, const: object = None, **attributes: Any) -> None:
        super().__init__(flags, help, is_flag=True, **attributes)
        self.const = const


def section(heading: str, options: list[Option]) -> list[Option]:
    """Put options under a heading of their own in the help."""
    for option in options:
        option.section = heading
    return options


def exclusive(*options: Option, is_required: bool = False) -> tuple[Option, ...]:
    """Make a group of options of which only one may be given."""
    group = Exclusive(is_required=is_required)
    for option in options:
        option.exclusive_group = group
    return options


class Argument(click.Argument):
    """A positional argument; with `nargs=-1` a list of them."""

    def __init__(self, name: str, help: str = "", **attributes: Any) -> None:
        super().__init__([name], **attributes)
        self.help = help

    @property
    def human_readable_name(self) -> str:
        """The name in help and errors."""
        return self.metavar or self.type.name.upper()

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The name in the usage line; arguments without help, which only scripts use, are left out."""
        return [self.make_metavar(ctx)] if self.help else []

    def make_metavar(self, ctx: click.Context | None = None) -> str:
        """The name in the usage line, in brackets if it is optional."""
        name = self.human_readable_name
        if self.nargs == -1:
            return f"[{name}]..."
        return name if self.required else f"[{name}]"


class Choice(ValueType):
    """One of several words; a hidden one, for scripts, is not in the help."""

    name = "choice"

    def __init__(self, *words: str, hidden: str | None = None) -> None:
        self.words = words
        self._hidden = hidden

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """The words, as help shows them."""
        return f"{{{','.join(self.words)}}}"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """Check that the value is one of the words."""
        if value not in (*self.words, self._hidden):
            self.fail(f"{value!r} is none of {', '.join(self.words)}", param, ctx)
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        """The words that start with `incomplete`."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in self.words if word.startswith(incomplete)]
