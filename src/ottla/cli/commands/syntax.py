"""Commands and verbs on top of click: our help format, abbreviated options, and errors with advice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import click
from click.core import ParameterSource

from ottla.cli.commands.options import Argument, Exclusive, Flag, Option

_HELP_COLUMNS: Final = 120


class Arguments(SimpleNamespace):
    """The values of the parameters of a command."""

    def __contains__(self, name: object) -> bool:
        return name in self.__dict__


class Call(NamedTuple):
    """A parsed line: the function that does the work, as `module:function`, and its arguments.

    The module is below `ottla.cli`, or named in full from `ottla.` on.
    """

    work: str
    arguments: Arguments


def _show_help(ctx: click.Context, option: click.Parameter, is_given: bool) -> None:
    if is_given and not ctx.resilient_parsing:
        print(ctx.get_help())
        ctx.exit()


class _HelpfulCommand(click.Command):
    """The base of commands and groups: the help format, and options that may be abbreviated."""

    params: list[click.Parameter]

    def __init__(
        self, name: str, summary: str, description: str, epilog: str, **attributes: Any
    ) -> None:
        settings = {
            "token_normalize_func": self._expand_flag,
            "max_content_width": _HELP_COLUMNS,
            **attributes.pop("context_settings", {}),
        }
        super().__init__(
            name, short_help=summary, context_settings=settings, add_help_option=False, **attributes
        )
        self.description = description or summary[:1].upper() + summary[1:] + "."
        self.epilog = epilog
        self.params.insert(
            0,
            Flag(
                "-h --help",
                "show this help",
                is_eager=True,
                expose_value=False,
                callback=_show_help,
            ),
        )

    def flags(self) -> dict[str, click.Option]:
        """The options by their flags."""
        return {
            flag: parameter
            for parameter in self.params
            if isinstance(parameter, click.Option)
            for flag in parameter.opts
        }

    def _expand_flag(self, word: str) -> str:
        """The name of the only option that starts with `word`: `--bootstrap` stands for `--bootstrap-server`."""
        if len(word) < 2 or f"--{word}" in self.flags():
            return word
        longer = self.flags_starting_with(f"--{word}")
        return longer[0][2:] if len({*map(self.flags().get, longer)}) == 1 else word

    def flags_starting_with(self, flag: str) -> list[str]:
        """The flags that start with `flag`."""
        return [each for each in self.flags() if each.startswith(flag)]

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usage line, which errors show too."""
        formatter.write_usage(
            ctx.command_path, " ".join(self.collect_usage_pieces(ctx)), prefix="usage: "
        )

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write usage, description, the parameters under their headings, and the examples."""
        self.format_usage(ctx, formatter)
        formatter.write(f"\n{self.description.rstrip()}\n")
        for heading, rows in self.sections(ctx).items():
            with formatter.section(heading):
                formatter.write_dl(rows)
        if self.epilog:
            formatter.write(f"\n{self.epilog.rstrip()}\n")

    def sections(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """The rows of the help by heading."""
        found = {
            "arguments": [
                (each.human_readable_name, each.help)
                for each in self.params
                if isinstance(each, Argument) and each.help
            ]
        }
        for parameter in self.params:
            if isinstance(parameter, Option) and (row := parameter.get_help_record(ctx)):
                found.setdefault(parameter.section, []).append(row)
        return {heading: rows for heading, rows in found.items() if rows}


class Command(_HelpfulCommand):
    """A command or verb that does something.

    `instead` maps options that users may try to the ones to write; `rest` names the argument for all words after `--`.
    """

    def __init__(
        self,
        name: str,
        summary: str,
        work: str,
        parameters: Iterable[click.Parameter],
        *,
        description: str = "",
        epilog: str = "",
        instead: Mapping[str, str] | None = None,
        rest: str | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(name, summary, description, epilog, params=[*parameters], **attributes)
        self.work = work
        self.instead = instead or {}
        self._rest = rest
        self.allow_extra_args = True  # so that the error about them is ours, with the words in it

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words and check that the options fit together."""
        if self._rest is not None:
            at = args.index("--") if "--" in args else len(args)
            args, ctx.params[self._rest] = args[:at], args[at + 1 :]
        left = super().parse_args(ctx, [*self._click_words(ctx, args)])
        if not ctx.resilient_parsing:
            if left:
                ctx.fail(f"{' '.join(left)!r} is more than this command takes")
            self._check_exclusive(ctx)
        return left

    def _click_words(self, ctx: click.Context, given: Sequence[str]) -> Iterator[str]:
        """The words in the form that click takes: `-b=VALUE` in two, and a greedy option repeated before each value."""
        flags = self.flags()
        words = [*reversed(given)]
        while words:
            word = words.pop()
            option = flags.get(word)
            if word == "--":
                yield from (word, *reversed(words))
                return
            if isinstance(option, Option) and option.needs_value and words:
                if words[-1] in flags and not ctx.resilient_parsing:
                    ctx.fail(f"{word} needs a value, and {words[-1]} is an option")
                yield from (word, words.pop())
                while option.is_greedy and words and not words[-1].startswith("-"):
                    yield from (word, words.pop())
            elif word[2:3] == "=" and word[:2] in flags and word[1] != "-":
                yield from (word[:2], word[3:])
            else:
                yield word

    def _check_exclusive(self, ctx: click.Context) -> None:
        groups: dict[Exclusive, list[Option]] = {}
        for parameter in self.params:
            if isinstance(parameter, Option) and parameter.exclusive_group is not None:
                groups.setdefault(parameter.exclusive_group, []).append(parameter)
        for group, options in groups.items():
            given = [each.opts[-1] for each in options if _is_given(ctx, each)]
            if len(given) > 1:
                ctx.fail(f"{' and '.join(given)} exclude each other")
            if not given and group.is_required:
                named = ", ".join(each.opts[-1] for each in options)
                ctx.fail(f"one of these is required: {named}")

    def invoke(self, ctx: click.Context) -> Call:
        """The call that the line stands for; the caller runs it."""
        return Call(self.work, self.arguments(ctx))

    def arguments(self, ctx: click.Context) -> Arguments:
        """The values by name; defaults for what was not given."""
        values: dict[str, Any] = {} if self._rest is None else {self._rest: ctx.params[self._rest]}
        shared = []
        for parameter in self.params:
            into = getattr(parameter, "into", None)
            if into is not None:
                shared.append((into, parameter))
            elif parameter.expose_value:
                values[parameter.name or ""] = _value(ctx, parameter)
        for into, parameter in shared:
            value = _value(ctx, parameter)
            if isinstance(value, list):
                values[into] = [*values.get(into, []), *value]
            elif _is_given(ctx, parameter):
                const = getattr(parameter, "const", None)
                values[into] = value if const is None else const
            else:
                values.setdefault(into, None)
        return Arguments(**values)


def _is_given(ctx: click.Context, parameter: click.Parameter) -> bool:
    return ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE


def _value(ctx: click.Context, parameter: click.Parameter) -> Any:
    value = ctx.params.get(parameter.name or "")
    return [*(value or ())] if parameter.multiple or parameter.nargs == -1 else value


class Group(_HelpfulCommand, click.Group):
    """A command with verbs; the `ottla` command itself is one.

    `instead` maps verbs of other tools, which users may try, to ours.
    """

    noun: str = "verb"
    # Options that every verb has.
    verb_flags: Final = frozenset(
        ("-b", "--bootstrap-server", "--command-config", "-X", "--timeout", "-v", "--verbose")
    )

    def __init__(
        self,
        name: str,
        summary: str,
        verbs: Iterable[Command | Group] = (),
        *,
        instead: Mapping[str, str] | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(
            name,
            summary,
            attributes.pop("description", ""),
            attributes.pop("epilog", ""),
            no_args_is_help=False,
            subcommand_metavar=f"{self.noun.upper()} ...",
            **attributes,
        )
        self.instead = instead or {}
        for verb in verbs:
            self.add_command(verb)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs in the order of their declaration."""
        return [*self.commands]

    def summaries(self) -> Mapping[str, str]:
        """The summaries of the verbs."""
        return {name: verb.short_help or "" for name, verb in self.commands.items()}

    def sections(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """The rows of the help by heading, the verbs first."""
        return {f"{self.noun}s": [*self.summaries().items()], **super().sections(ctx)}

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """The verbs and options that start with `incomplete`."""
        from click.shell_completion import CompletionItem

        return [
            CompletionItem(name, help=summary)
            for name, summary in self.summaries().items()
            if name.startswith(incomplete)
        ] + click.Command.shell_complete(self, ctx, incomplete)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; before the verb only --help is accepted."""
        if not ctx.resilient_parsing:
            self._check_first_word(ctx, args)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb, and the words after it."""
        name = args[0]
        verb = self.get_command(ctx, name)
        if verb is None:
            self._check_foreign(ctx, name)
            names = self.list_commands(ctx)
            advice = suggestion(name, names) or f": there are {', '.join(names)}"
            ctx.fail(f"there is no {self.noun} {name!r}{advice}")
        return name, verb, args[1:]

    def _check_first_word(self, ctx: click.Context, given: Sequence[str]) -> None:
        verbs = self.list_commands(ctx)
        if not given:
            ctx.fail(f"what shall it do? there are {', '.join(verbs)}")
        flag = given[0].partition("=")[0]
        if not flag.startswith("-") or self.flags_starting_with(flag):
            return
        words = [word.lstrip("-") for word in given]
        self._check_foreign(ctx, words[0])
        named = next((word for word in words if word in verbs), None)
        if flag in self.verb_flags or flag[:2] in self.verb_flags:
            line = f"{ctx.command_path} {named or 'VERB'}"
            inner = None if named is None else self.get_command(ctx, named)
            if named is not None and isinstance(inner, Group):
                behind = words[words.index(named) + 1 :]
                line += f" {next((each for each in behind if each in inner.commands), 'VERB')}"
            ctx.fail(f"{flag} belongs behind the verb: {line} {flag} …")
        if named is not None and named not in given:
            ctx.fail(f"write `{ctx.command_path} {named}`, without dashes")

    def _check_foreign(self, ctx: click.Context, word: str) -> None:
        """Tell our verb for that of another tool."""
        if word in self.instead:
            ctx.fail(f"write `{ctx.command_path} {self.instead[word]}`")


def suggestion(word: str, known: Iterable[str]) -> str:
    """The end of a sentence that suggests a known word for an unknown one; empty if none is near."""
    import difflib

    known = list(known)
    longer = [each for each in known if each.startswith(f"{word}-")]
    if len(longer) == 1:
        return f": did you mean {longer[0]}?"
    nearest = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f": did you mean {nearest[0]}?" if nearest else ""


def usage_error_text(error: click.UsageError) -> str:
    """The text of a usage error."""
    match error:
        case click.NoSuchOption():
            return _no_such_option(error)
        case click.MissingParameter(param=click.Parameter() as parameter):
            return f"the following arguments are required: {_name_of(parameter)}"
        case click.BadParameter(param=click.Parameter() as parameter):
            return f"argument {_name_of(parameter)}: {error.message}"
        case click.BadOptionUsage():
            return error.message[:1].lower() + error.message[1:].rstrip(".")
    return error.message


def _name_of(parameter: click.Parameter) -> str:
    is_option = isinstance(parameter, click.Option)
    return "/".join(parameter.opts) if is_option else parameter.human_readable_name


def _no_such_option(error: click.NoSuchOption) -> str:
    flag = error.option_name
    command = error.ctx.command if error.ctx is not None else None
    if not isinstance(command, _HelpfulCommand):
        return f"there is no {flag} here"
    if isinstance(command, Command) and flag in command.instead:
        return f"there is no {flag} here: write {command.instead[flag]}"
    several = command.flags_starting_with(flag) if flag.startswith("--") else []
    if len(several) > 1:
        return f"{flag} could be {', '.join(several)}"
    return f"there is no {flag} here{suggestion(flag, command.flags())}"
